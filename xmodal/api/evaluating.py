"""Evaluates any model from two embedding functions or from its files."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import PIL.Image
from jax.sharding import Mesh

from xmodal.core.config import Bounds, check_options, read
from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.data.pixels.images import decode_image
from xmodal.evals import Embeddings, Evaluation, evaluate_source
from xmodal.evals.evaluators import EVALUATORS, read_entry
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions, benchmarks_of_annotations
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.reports.evaluate import EXAMPLES
from xmodal.evals.reports.paired_differences import check_comparable
from xmodal.evals.scores.files import (
    File,
    NamedArrays,
    check_savable,
    check_similarity,
    load_embeddings,
    modalities_of,
    name_of,
    open_source,
    save_rankings,
)
from xmodal.evals.scores.sources import ModelAdapter, with_similarity
from xmodal.pretrained.saved_models import open_text_encoder
from xmodal.similarity import make_similarity

_BATCH_SIZE = 64  # Items per call of a function.


def evaluate(
    *,
    embed_images: Callable[[list[PIL.Image.Image]], Any] | None = None,
    embed_texts: Callable[[list[str]], Any] | str | None = None,
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
    benchmarks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    similarity: str | None = None,
    partial: bool = False,
    batch_size: Annotated[int, Bounds(at_least=1)] = _BATCH_SIZE,
    name: str | None = None,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    precision: str = "float32",
    mesh: Mesh | None = None,
    other: Evaluation | None = None,
    save_rankings: str | os.PathLike | None = None,
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

    Without a dataset, these files are evaluated on the labels in the folder `annotations`: those
    released for MS-COCO, those of a study, or own judgments.

    A dataset of captions and images is evaluated by its retrieval benchmarks and ratings, a dataset
    of sentence pairs (`dataset="semeval_sts", config="pairs"`) by STS correlations, and any dataset
    by an `evaluator` such as `{"type": "zero_shot", "templates": ["a photo of a {}."]}`.

    Args:
      embed_images: at most `batch_size` PIL images in RGB -> numbers [b, D] or [b, K, D], as a
        PyTorch tensor or an array that NumPy reads; None for a model of texts. Images are decoded
        as for the models of this project, without rotation by their EXIF orientation.
      embed_texts: the same for texts, or `savedmodel:FOLDER`, see `open_text_encoder`; None for a
        model of images.
      embeddings: npz file or its arrays, see `files.load_embeddings`.
      scores: file or arrays of a matrix or of candidates, see `files.load_scores`.
      rankings: file or mapping, see `files.load_rankings`.
      ids: ids of a bare matrix of scores.
      dataset: one of `data_prep.BUILDERS`, or a prepared dataset of TFDS.
      config: TFDS builder config of the dataset; None for "images".
      split: split of the dataset or labels.
      data_dir: folder of prepared datasets; "" for TFDS's own.
      manual_dir: folder of the files that the dataset is built from.
      ratings_dir: folder of the released CSV files of Crisscrossed Captions.
      annotations: folder of the labels released for MS-COCO, of `xmodal annotate aggregate`, or of
        judgments, see `annotations.read_annotations`; an `evaluator` names its own.
      evaluator: an entry of `config.evals`, of which the splits and `every` are not read; None for
        benchmarks or pairs, as the dataset has it.
      benchmarks: names of benchmarks; None for all that the annotations allow.
      metrics: metrics of judgments, such as "ndcg@100"; None for the usual ones.
      similarity: a name in `xmodal.similarity.SIMILARITIES`, such as "cosine" or "dot"; None for
        that of a file. There is no other default, since they rank differently.
      partial: whether files may lack items of the annotations.
      batch_size: items per call of a function.
      name: name of the model's row; by default "model", or that of the file.
      bootstrap_samples: samples of every interval and correlation, unless `evaluator` names them.
      seed: seed of the bootstrap, unless `evaluator` names it.
      precision: type of the scores of vectors, unless `evaluator` names it.
      mesh: devices over which galleries are split; None for one.
      other: another model to compare with on annotations.
      save_rankings: JSON file for the first 50 items of every query, on annotations; None for none.
      examples: queries of every rule on `page`, which shows their pictures if there are any; 0 for
        no page, None for 3 on benchmarks of a dataset, unless a file scores only some pairs.
    """
    given = dict(locals())
    check_options("evaluate", evaluate, {name: given[name] for name in ("batch_size", "examples")})
    both = {"image": embed_images, "text": embed_texts}
    functions: dict[str, Any] = {key: each for key, each in both.items() if each is not None}
    files = [kind for kind in ("embeddings", "scores", "rankings") if given[kind] is not None]
    if len(files) + bool(functions) != 1:
        raise UserError(
            "Pass embed_images and embed_texts, or just one of embeddings, scores and rankings."
        )
    has_dataset = bool(functions or dataset)
    others = list(_FOR_LABELS if has_dataset else _FOR_DATASETS)
    if functions:
        others.append("ids")
    if evaluator is not None:
        others.append("annotations")
    if unused := [key for key in others if given[key] is not _DEFAULTS[key]]:
        place = "this model on a dataset" if has_dataset else "annotations without a dataset"
        raise UserError(f"{unused} cannot be used with {place}: remove them.")
    adapter: Any
    if functions:
        adapter = FunctionAdapter(functions, similarity, batch_size)
        return _evaluate_dataset(given, adapter, sorted(functions), name or "model")
    (kind,) = files
    adapter, name = open_source(kind, given[kind], ids, similarity), name or name_of(given[kind])
    if dataset:
        return _evaluate_dataset(given, adapter, sorted(modalities_of(adapter)), name)
    return _evaluate_labels(given, adapter, name)


_BOOTSTRAP = ("bootstrap_samples", "seed", "precision")
_FOLDERS = ("data_dir", "manual_dir", "ratings_dir")
_FOR_DATASETS = ("config", *_FOLDERS, "evaluator", "examples")
_FOR_LABELS = ("benchmarks", "metrics", "partial", "other", "save_rankings")
_DEFAULTS = {key: each.default for key, each in inspect.signature(evaluate).parameters.items()}


def _evaluate_labels(given: Mapping[str, Any], source: Any, name: str) -> Evaluation:
    """Evaluates a file on labels without a prepared dataset."""
    entry = {key: given[key] for key in _BOOTSTRAP}
    entry |= {"type": "benchmarks", "annotations": os.fspath(given["annotations"])}
    for key in ("benchmarks", "metrics"):
        entry[key] = (given[key],) if isinstance(given[key], str) else given[key]
    options = read(BenchmarksOptions, "evaluate", entry)
    options.check("evaluate")
    how = {key: given[key] for key in ("partial", "mesh")}
    evaluator = benchmarks_of_annotations(options, given["split"], source, **how)
    if given["other"] is not None:
        check_comparable(evaluator.hashes, given["other"])
    if path := given["save_rankings"]:
        check_savable(path, ".json")
        save_rankings(path, evaluator.rankings(source))
    return evaluate_source(evaluator, source, name=name)


def _evaluate_dataset(
    given: Mapping[str, Any], adapter: ModelAdapter, modalities: Sequence[str], name: str
) -> Evaluation:
    """Evaluates a model on a dataset, which is built if possible, with a page of examples."""
    from xmodal import data  # Slow to import.

    bootstrap, where = {key: given[key] for key in _BOOTSTRAP}, "evaluate.evaluator"
    options, entry, split = None, given["evaluator"], given["split"]
    if entry is not None:
        options = read_entry(where, {**bootstrap, **entry} if isinstance(entry, Mapping) else entry)
    section = {
        **{key: os.fspath(given[key]) for key in ("dataset", *_FOLDERS)},
        "config": given["config"] or "images",
        # Pictures are read whole; it only matters whether there are any.
        "image": {"size": 1} if "image" in modalities else None,
        "text": {},
        "labels": () if options is None else options.labels_read,
    }
    for each in (split, *(options.splits_read if options else ())):
        data.prepare(section, splits=[each])
    items: Any = data.eval_split(section, split=split)
    if options is None:
        where, labels = "evaluate", os.fspath(given["annotations"])
        # With scores of pairs, the metric is the correlation, as in STS.
        entry = {"type": "embedding_similarity" if items.has_pairs else "benchmarks"}
        options = read_entry(where, bootstrap | entry | ({"annotations": labels} if labels else {}))
    if (field := (options.similarity or {}).get("field", "vector")) != "vector":
        raise UserError(
            f"The similarity of {where} ranks the array {field!r}, but {adapter.place} has "
            "one array per item, the vectors: remove `field` from the similarity, or evaluate the "
            "model itself, with --run=RUN."
        )
    evaluator = EVALUATORS[options.type][1](where, options, items, modalities, given["mesh"])
    examples = EXAMPLES if given["examples"] is None else given["examples"]
    return evaluate_source(evaluator, adapter, name=name, examples=examples)


class FunctionAdapter(ModelAdapter):
    """A model of embedding functions by modality."""

    def __init__(
        self,
        functions: Mapping[str, Callable[[list[Any]], Any] | str],
        similarity: str | None,
        batch_size: int = _BATCH_SIZE,
    ) -> None:
        """Opens the functions; arguments are those of `evaluate`."""
        self.place, self._similarity = "the model", check_similarity(similarity)
        if learned := make_similarity({"name": self._similarity}).parameters:
            raise UserError(
                f"similarity {similarity!r} needs {list(learned)}, which a model learns: pass a "
                "file of embeddings that has them."
            )
        self._functions: dict[str, Callable[[list[Any]], Any]] = {
            modality: open_text_encoder(each) if isinstance(each, str) else each
            for modality, each in functions.items()
        }
        self._batch_size = batch_size
        self._items = functools.cache(self._embed_split)

    def items(
        self,
        split: Any,
        *,
        similarity: Mapping[str, Any] | None = None,
        batch_size: int = 256,
    ) -> Embeddings:
        """See `ModelAdapter`; calls the functions for every image and caption, once per split."""
        return with_similarity(self._items(split), similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        return self._embed(modality, len(given), lambda rows: [given[row] for row in rows])

    def _embed_split(self, split: Any) -> Embeddings:
        texts = split.caption_texts
        arrays: dict[str, Any] = {"similarity": self._similarity}
        for modality, ids, items in (
            ("image", split.image_ids, split.pictures),
            ("text", split.caption_ids, lambda rows: [texts[row] for row in rows]),
        ):
            if modality in self._functions and len(ids):
                arrays[f"{KINDS[modality]}_ids"] = np.asarray(ids)
                arrays[f"{KINDS[modality]}_embeddings"] = self._embed(modality, len(ids), items)
        return dataclasses.replace(load_embeddings(arrays), place=f"{split.name} {split.split}")

    def _embed(self, modality: str, count: int, read: Callable[[np.ndarray], Any]) -> np.ndarray:
        """All vectors of one modality, [N, ...]."""
        name, parts = f"embed_{modality}s", list[np.ndarray]()
        with progress(f"Calling {name} for {count:,} items", count) as advance:
            for start in range(0, count, self._batch_size):
                given = read(np.arange(start, min(start + self._batch_size, count)))
                if modality == "image":
                    given = [PIL.Image.fromarray(decode_image(each)) for each in given]
                found = NamedArrays({name: self._functions[modality](given)})[name]
                if found.dtype.kind in "biuO":
                    found = found.astype(np.float32)
                parts.append(NamedArrays({name: found}).vectors(name, len(given)))
                advance(len(given))
        return np.concatenate(parts)
