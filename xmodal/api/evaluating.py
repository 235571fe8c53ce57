"""Evaluates any model from two embedding functions or from its files."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

import PIL.Image
from jax.sharding import Mesh

from xmodal.api.embedding_functions import FunctionProvider
from xmodal.core.config import Bounds, check_options, read, suggest
from xmodal.core.errors import UserError
from xmodal.core.mesh import BATCH_AXIS
from xmodal.evals import Evaluation, evaluate_source
from xmodal.evals.evaluators import EVALUATORS, Evaluator, Options, read_entry
from xmodal.evals.evaluators.boards import BoardsEvaluator, BoardsOptions, boards_of_annotations
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.files import name_of, open_items, open_source, sides_of
from xmodal.evals.scores.galleries import ids_of
from xmodal.evals.scores.sources import Candidates, Provider, RankedLists, Source
from xmodal.similarity import SIMILARITIES

_EXAMPLES = 3  # Queries of every rule on the page, unless a number is given.

File = str | os.PathLike | Mapping[str, Any]


def evaluate(
    model: Any = None,
    /,
    *,
    embed_images: Callable[[list[PIL.Image.Image]], Any] | None = None,
    embed_texts: Callable[[list[str]], Any] | None = None,
    embeddings: File | None = None,
    scores: File | None = None,
    rankings: File | None = None,
    ids: File | None = None,
    dataset: str = "",
    config: str | None = None,
    split: str = "test",
    data_dir: str | os.PathLike = "",
    manual_dir: str | os.PathLike = "",
    ratings_dir: str | os.PathLike = "",
    annotations: str | os.PathLike = "",
    evaluator: Mapping[str, Any] | None = None,
    boards: Sequence[str] | None = None,
    similarity: str | None = None,
    partial: bool = False,
    batch_size: int | None = None,
    name: str | None = None,
    bootstrap_samples: Annotated[int, Bounds(at_least=1)] = 1000,
    seed: Annotated[int, Bounds(at_least=0)] = 0,
    precision: Annotated[str, Bounds(one_of=("float32", "float64"))] = "float32",
    mesh: Mesh | None = None,
    other: StoredResults | None = None,
    examples: Annotated[int | None, Bounds(at_least=0)] = None,
) -> Evaluation:
    """Evaluates a model from any framework in the same way as the models of this project.

    Two functions embed the images and texts of a prepared dataset, which is built if possible::

        evaluation = xmodal.evaluate(
            embed_images=lambda images: model.encode(images),
            embed_texts=lambda texts: model.encode(texts),
            dataset="flickr8k", manual_dir="DOWNLOADS", similarity="cosine",
        )
        print(evaluation.report())
        evaluation.save("results/my_model")

    `embeddings="model.npz"` instead of the functions reads the embeddings of the dataset's items,
    `scores` and `rankings` the scores or ranked lists of any other system.

    Without a dataset, these files are evaluated on the labels released for MS-COCO, in the folder
    `annotations`.

    A dataset of captions and images is evaluated by its retrieval boards and ratings, a dataset of
    sentence pairs (`dataset="semeval_sts", config="pairs"`) by STS correlations, and any dataset
    by an `evaluator` such as `{"type": "zero_shot", "templates": ["a photo of a {}."]}`.

    Args:
      model: only for an error that says how to evaluate a model of `xmodal.load`.
      embed_images: at most `batch_size` PIL images in RGB -> numbers [b, D] or [b, K, D], as a
        PyTorch tensor or an array that NumPy reads; None for a model of texts. Images are decoded
        as for the models of this project, without rotation by their EXIF orientation.
      embed_texts: the same for texts; None for a model of images.
      embeddings: npz file or its arrays, see `arrays.load_embeddings` and `read_sentences`.
      scores: file or arrays of a matrix or of candidates, see `arrays.load_scores`.
      rankings: file or mapping, see `files.load_rankings`.
      ids: ids of a bare matrix of scores.
      dataset: one of `data_prep.BUILDERS`, or a prepared dataset of TFDS.
      config: TFDS builder config of the dataset; None for "images".
      split: split of the dataset or labels.
      data_dir: folder of prepared datasets; "" for TFDS's own.
      manual_dir: folder of the files that the dataset is built from.
      ratings_dir: folder of the released CSV files of Crisscrossed Captions.
      annotations: folder of the labels released for MS-COCO, see `annotations.read_annotations`.
      evaluator: an entry of `config.evals`, of which the splits and `every` are not read; None for
        boards or pairs, as the dataset has it.
      boards: names of boards; None for all that the annotations allow.
      similarity: a name in `xmodal.similarity.SIMILARITIES`, such as "cosine" or "dot"; None for
        that of a file. There is no other default, since they rank differently.
      partial: whether files may lack items of the annotations.
      batch_size: items per call of a function; None for 64.
      name: name of the model's row; by default "model", or that of the file.
      bootstrap_samples: samples of every interval and correlation, unless `evaluator` names them.
      seed: seed of the bootstrap, unless `evaluator` names it.
      precision: type of the scores of vectors, unless `evaluator` names it.
      mesh: devices over which galleries are sharded, with one axis, "data"; None for one.
      other: another model to compare with on annotations.
      examples: queries of every rule on `page`, which shows their pictures if there are any; 0 for
        no page, None for 3 on boards of a dataset, unless a file scores only some pairs.

    Raises:
      UserError: an argument, a file or the result of a function cannot be used. If models cannot
        be compared, the error comes before anything is computed.
    """
    if model is not None:
        raise UserError(
            f"evaluate takes named arguments, not {model!r:.80}: for a run on its own dataset, use "
            "xmodal.inspect(RUN).evaluation, or xmodal evaluate --run=RUN for all its evaluators; "
            "for a loaded model on another dataset, embed_images=model.embed_images, "
            "embed_texts=model.embed_texts, dataset=NAME and its similarity."
        )
    functions = {"image": embed_images, "text": embed_texts}
    functions = {side: function for side, function in functions.items() if function is not None}
    files = {"embeddings": embeddings, "scores": scores, "rankings": rankings}
    files = {kind: file for kind, file in files.items() if file is not None}
    for_files = {"ids": ids, "boards": boards, "partial": partial or None, "other": other}
    for_files = {key: value for key, value in for_files.items() if value is not None}
    folders = {"data_dir": data_dir, "manual_dir": manual_dir, "ratings_dir": ratings_dir}
    section = {"dataset": dataset, "config": config, **folders}
    bootstrap = {"bootstrap_samples": bootstrap_samples, "seed": seed, "precision": precision}
    options = {"split": split, "annotations": annotations, "partial": partial, "name": name}
    check_options("evaluate", evaluate, section | bootstrap | options | {"examples": examples})
    _check_mesh(mesh)
    section |= {key: os.fspath(folder) for key, folder in folders.items()}
    annotations = os.fspath(annotations)
    prepared = _Dataset(section, split, annotations, evaluator, bootstrap, similarity, mesh)
    if functions:
        if extra := sorted([*files, *for_files]):
            raise UserError(f"{extra} cannot be used with embedding functions.")
        similarity = _check_functions(functions, dataset, similarity)
        provider = FunctionProvider(functions, batch_size, similarity)
        chosen, items = prepared.open(sorted(functions))
        return _evaluate_items(chosen, items, provider, name or "model", examples)
    kind, file = _only_file(files)
    if batch_size is not None:
        raise UserError(f"batch_size={batch_size} is for embedding functions; remove it.")
    if dataset:
        if extra := sorted(for_files.keys() - {"ids"}):
            raise UserError(
                f"{extra} cannot be used with a dataset: remove them, or pass annotations instead "
                "of the dataset."
            )
        saved = open_items(kind, file, ids, similarity)
        chosen, items = prepared.open(sorted(sides_of(saved)))
        chosen.check_provider("evaluator", saved)
        return _evaluate_items(chosen, items, saved, name or name_of(file), examples)
    for_datasets = section | {"evaluator": evaluator, "examples": examples}
    if unused := [key for key, value in for_datasets.items() if value]:
        raise UserError(f"{unused} need a dataset: pass dataset=NAME, or remove them.")
    labels = _read_labels(annotations, boards, bootstrap)
    source = open_source(kind, file, ids, similarity)
    on_labels = _open_annotations(labels, split, source, partial=partial, mesh=mesh)
    if other is not None:
        if not isinstance(other, StoredResults):
            raise UserError(f"evaluate.other is {other!r:.80}; pass `Evaluation.stored` of it.")
        on_labels.check_comparable(other)
    return evaluate_source(on_labels, source, name=name or name_of(file))


def _only_file(files: Mapping[str, File]) -> tuple[str, File]:
    """Returns the one file that is given, and its kind."""
    if not files:
        raise UserError(
            "Pass embed_images and embed_texts, or one of embeddings, scores and rankings."
        )
    if len(files) > 1:
        kinds = " and ".join(files)
        raise UserError(f"Give one of embeddings, scores and rankings, not {kinds}.")
    return next(iter(files.items()))


def _check_mesh(mesh: Mesh | None) -> None:
    if mesh is not None and not (isinstance(mesh, Mesh) and mesh.axis_names == (BATCH_AXIS,)):
        raise UserError(
            f"evaluate.mesh is {mesh!r}; it must be None, for one device, or a jax.sharding.Mesh "
            f"with one axis, {BATCH_AXIS!r}."
        )


def _read_labels(annotations: str, boards: Any, bootstrap: Mapping[str, Any]) -> BoardsOptions:
    """Returns the options of an evaluation on released labels."""
    if annotations == "":
        raise UserError(
            "annotations is empty: pass the folder of the labels released for MS-COCO, or "
            "dataset=NAME to evaluate the file on a prepared dataset."
        )
    labels = {
        "type": "boards",
        "annotations": annotations,
        "boards": (boards,) if isinstance(boards, str) else boards,
        **bootstrap,
    }
    return read(BoardsOptions, "evaluate", labels)


def _evaluate_items(
    evaluator: Evaluator, items: Items, provider: Provider, name: str, examples: int | None
) -> Evaluation:
    """Evaluates a model on the items of a dataset, with a page of examples if there are boards."""
    if examples and not isinstance(evaluator, BoardsEvaluator):
        raise UserError(
            f"examples={examples} shows queries of boards, but the evaluator is of type "
            f"{evaluator.options.type}; remove it."
        )
    count = examples or 0
    if examples is None and not isinstance(provider, Candidates | RankedLists):
        count = _EXAMPLES
    return evaluate_source(evaluator, provider, name=name, split=items, examples=count)


def _open_annotations(
    options: BoardsOptions, split: str, source: Source, *, partial: bool, mesh: Mesh | None
) -> BoardsEvaluator:
    """Returns the boards of released labels for the items of a file."""
    if partial and isinstance(source, RankedLists):
        raise UserError(
            "`partial` is for embeddings and scores: ranked lists do not tell which items exist."
        )
    ids = None if isinstance(source, RankedLists) else ids_of(source)
    return boards_of_annotations(options, split, source.place, ids, partial=partial, mesh=mesh)


def _check_functions(functions: Mapping[str, Any], dataset: str, similarity: str | None) -> str:
    """Returns the similarity of embedding functions; raises an error if they cannot be used."""
    if not dataset:
        raise UserError("dataset is empty: name the dataset whose items the functions embed.")
    if similarity is None or similarity not in SIMILARITIES:
        raise UserError(f"similarity is {similarity!r}; {suggest([str(similarity)], SIMILARITIES)}")
    if learned := SIMILARITIES[similarity].parameters:
        raise UserError(
            f"similarity {similarity!r} needs {list(learned)}, which a model learns: pass a file "
            "of embeddings that has them."
        )
    for side, function in functions.items():
        if not callable(function):
            raise UserError(f"embed_{side}s is {function!r}; it must be a function.")
    return similarity


@dataclasses.dataclass(frozen=True)
class _Dataset:
    """A split of a dataset and its evaluator, as the arguments of `evaluate` name them.

    Attributes:
      section: its part of `config.data`.
    """

    section: Mapping[str, Any]
    split: str
    annotations: str
    evaluator: Mapping[str, Any] | None
    bootstrap: Mapping[str, Any]
    similarity: str | None
    mesh: Mesh | None

    def open(self, sides: Sequence[str]) -> tuple[Evaluator, Items]:
        """Returns the evaluator and the items of the split, which is built if possible."""
        from xmodal import data  # Slow to import.

        options = None if self.evaluator is None else self._read_evaluator(self.evaluator)
        section = {
            **self.section,
            "config": self.section["config"] or "images",
            # Pictures are read whole; it only matters whether there are any.
            "image": {"size": 1} if "image" in sides else None,
            "text": {},
            "labels": () if options is None else options.labels_read,
        }
        for split in (self.split, *(() if options is None else options.splits_read)):
            data.prepare(section, splits=[split])
        items = data.eval_split(section, split=self.split)
        if self.annotations and items.has_pairs:
            raise UserError(
                f"annotations are labels of images and captions, and {items.name} has pairs of "
                "sentences; remove them."
            )
        where = "evaluate" if options is None else "evaluate.evaluator"
        if options is None:
            entry = {"type": "boards", "annotations": self.annotations}
            if items.has_pairs:  # With scores, the metric is the correlation, as in STS.
                entry = {"type": "pairs"}
            options = read_entry(where, {**self.bootstrap, **entry})
        shown = cast(Items, items)
        return EVALUATORS[options.type].make(where, options, shown, sides, self.mesh), shown

    def _read_evaluator(self, entry: Mapping[str, Any]) -> Options:
        """Returns the options of an evaluator that other arguments do not contradict."""
        where = "evaluate.evaluator"
        if isinstance(entry, Mapping):  # Otherwise, the error names what it is.
            entry = {**self.bootstrap, **entry}
        options = read_entry(where, entry)
        if self.annotations:
            raise UserError(
                "annotations are not read beside an evaluator: name them in it, as "
                f"evaluator={{'type': 'boards', 'annotations': {self.annotations!r}}}."
            )
        if options.data is not None:
            raise UserError(
                f"{where}.data is for runs: name the dataset in the argument `dataset`."
            )
        own = None if options.similarity is None else options.similarity["name"]
        if own and self.similarity and own != self.similarity:
            raise UserError(
                f"similarity is {self.similarity!r}, and {where}.similarity is {own!r}: leave the "
                "evaluator's out, or make them equal."
            )
        return options
