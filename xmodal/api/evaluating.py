"""Evaluates any model from two embedding functions or from its files."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import PIL.Image

from xmodal.base.config import UserError, suggest
from xmodal.base.progress import progress
from xmodal.evals import (
    Embeddings,
    Evaluation,
    evaluate_source,
    from_files,
    load_embeddings,
    make_evaluator,
    read_options,
)
from xmodal.evals.evaluators import Evaluator, Split
from xmodal.evals.from_files import choose_similarity, name_of
from xmodal.evals.inputs.sentences import Captions, Sentences, has_sentences, load_sentences
from xmodal.evals.ranking.finite import count_not_finite
from xmodal.preprocessing.images import decode_image
from xmodal.similarity import SIMILARITIES

if TYPE_CHECKING:
    from xmodal.data import EvalSplit

_BATCH_SIZE = 64
_OF_FILES = ("embeddings", "scores", "rankings")


def evaluate(
    *,
    embed_images: Callable[[list[PIL.Image.Image]], Any] | None = None,
    embed_texts: Callable[[list[str]], Any] | None = None,
    dataset: str = "",
    config: str | None = None,
    split: str = "test",
    data_dir: str = "",
    manual_dir: str = "",
    ratings_dir: str = "",
    annotations: Any = "",
    similarity: str | None = None,
    batch_size: int | None = None,
    name: str | None = None,
    **files: Any,
) -> Evaluation:
    """Evaluates a model from any framework in the same way as the models of this project.

    Two functions embed the images and captions of a prepared dataset, which is built if possible::

        evaluation = xmodal.evaluate(
            embed_images=lambda images: model.encode(images),
            embed_texts=lambda texts: model.encode(texts),
            dataset="flickr8k", manual_dir="DOWNLOADS", similarity="cosine",
        )
        print(evaluation.report())
        evaluation.save("results/my_model")

    `embeddings="model.npz"` instead of the functions reads the embeddings of the dataset's items.

    Without a dataset, embeddings, scores or ranked lists are read from files and evaluated on the
    labels released for MS-COCO: see `xmodal.evals.evaluate_files`, whose arguments this function
    also takes.

    A dataset of captions and images is evaluated by its retrieval boards and ratings, a dataset of
    sentence pairs (`dataset="semeval_sts", config="pairs"`) by STS correlations.

    Args:
      embed_images: at most `batch_size` PIL images in RGB -> numbers [b, D] or [b, K, D], as a
        PyTorch tensor or an array that NumPy reads; None for a model of texts. Images are decoded
        as for the models of this project, without rotation by their EXIF orientation.
      embed_texts: the same for texts; None for a model of images.
      dataset: one of `data_prep.BUILDERS`.
      config: TFDS builder config of the dataset; None for "images".
      split: split of the dataset or labels.
      data_dir: folder of prepared datasets; "" for TFDS's own.
      manual_dir: folder of the files that the dataset is built from.
      ratings_dir: folder of the released CSV files of Crisscrossed Captions.
      annotations: folder of the labels released for MS-COCO.
      similarity: a name in `xmodal.similarity.SIMILARITIES`, such as "cosine" or "dot";
        None for that of a file.
      batch_size: items per call of a function; None for 64.
      name: name of the model's row; by default "model", or that of the file.
      **files: see `xmodal.evals.evaluate_files`.

    Raises:
      UserError: an argument, a file or the result of a function cannot be used.
    """
    functions = {"image": embed_images, "text": embed_texts}
    functions = {side: function for side, function in functions.items() if function is not None}
    section = {
        "dataset": dataset,
        "config": config,
        "data_dir": data_dir,
        "manual_dir": manual_dir,
        "ratings_dir": ratings_dir,
    }
    if functions:
        if files:
            raise UserError(f"{sorted(files)} cannot be used with embedding functions.")
        similarity = _checked(dataset, similarity, functions)
        size = _BATCH_SIZE if batch_size is None else batch_size
        if not isinstance(size, int | np.integer) or size < 1:
            raise UserError(f"batch_size={size!r}; it must be an integer of at least 1.")
        items, evaluator = _open_dataset(section, split, sorted(functions), annotations)
        embeddings = _embeddings(items, functions, size, f"{dataset} {split}", similarity)
        return evaluate_source(evaluator, embeddings, name=name or "model")
    if not any(files.get(kind) is not None for kind in _OF_FILES):
        raise UserError(
            "Pass embed_images and embed_texts, or one of embeddings, scores and rankings."
        )
    if batch_size is not None:
        raise UserError(f"batch_size={batch_size} is for embedding functions; remove it.")
    if dataset:
        saved = _read_embeddings(files, similarity)
        sides = ["text"] if isinstance(saved, Sentences) else sorted(saved.sides)
        items, evaluator = _open_dataset(section, split, sides, annotations)
        if isinstance(saved, Sentences):
            saved = saved.of_split(cast(Captions, items))
        return evaluate_source(evaluator, saved, name=name or name_of(files["embeddings"]))
    if unused := [key for key, value in section.items() if value]:
        raise UserError(f"{unused} need a dataset: pass dataset=NAME, or remove them.")
    if not annotations:
        raise UserError(
            "annotations is empty: pass the folder of the labels released for MS-COCO, or "
            "dataset=NAME to evaluate embeddings on a prepared dataset."
        )
    files |= {"annotations": annotations, "split": split, "similarity": similarity}
    return from_files.evaluate_files(name=name, **files)


def _checked(dataset: str, similarity: str | None, functions: Mapping[str, Any]) -> str:
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


def _read_embeddings(files: Mapping[str, Any], similarity: str | None) -> Embeddings | Sentences:
    if extra := sorted(set(files) - {"embeddings"}):
        raise UserError(
            f"{extra} cannot be used with a dataset: pass only embeddings, or annotations instead "
            "of the dataset."
        )
    source = files["embeddings"]
    if has_sentences(source):
        return choose_similarity(load_sentences(source), similarity)
    return choose_similarity(load_embeddings(source), similarity)


def _open_dataset(
    section: Mapping[str, Any], split: str, sides: Sequence[str], annotations: Any
) -> tuple["EvalSplit", Evaluator]:
    """Returns a split of a dataset, which is built if possible, and its evaluator."""
    from xmodal import data  # Imports TensorFlow.

    section = {
        **section,
        "config": section["config"] or "images",
        # Pictures are read whole; it only matters whether there are any.
        "image": {"size": 1} if "image" in sides else None,
        "text": {},
    }
    data.prepare(section, splits=[split])
    items = data.eval_split(section, split=split)
    # For sentence pairs with scores, the metric is the correlation, as in STS.
    kind = {"type": "pairs"} if items.has_pairs else {"type": "boards", "annotations": annotations}
    name = section["dataset"]
    options = read_options({name: kind})[name]
    return items, make_evaluator(name, options, cast(Split, items), sides)


def _embeddings(
    items: "EvalSplit",
    functions: dict[str, Callable[[list[Any]], Any]],
    batch_size: int,
    place: str,
    similarity: str,
) -> Embeddings:
    """Calls the functions for every image and caption of a split."""
    read = {
        "image": lambda rows: [_open(each) for each in items.pictures(rows)],
        "text": lambda rows: [items.caption_texts[row] for row in rows],
    }
    ids = {"image": items.image_ids, "text": items.caption_ids}
    vectors = {
        side: _embed(function, read[side], len(ids[side]), batch_size, f"embed_{side}s")
        for side, function in functions.items()
    }
    shapes = {side: list(found.shape[1:]) for side, found in vectors.items()}
    if len({tuple(shape) for shape in shapes.values()}) > 1:
        raise UserError(
            f"embed_images returned vectors of shape {shapes['image']} and embed_texts of shape "
            f"{shapes['text']}; the shapes must be equal."
        )
    ids = {side: np.asarray(ids[side], np.int64) for side in vectors}
    return Embeddings(
        place=place,
        image_ids=ids.get("image"),
        images=vectors.get("image"),
        caption_ids=ids.get("text"),
        captions=vectors.get("text"),
        similarity=similarity,
    )


def _open(encoded: bytes) -> PIL.Image.Image:
    return PIL.Image.fromarray(decode_image(encoded))


def _as_array(found: Any) -> np.ndarray:
    # PyTorch tensors may have gradients, be on a GPU or be bfloat16; NumPy can read none of these.
    if hasattr(found, "detach"):
        found = found.detach().float().cpu()
    array = np.asarray(found)
    if np.iscomplexobj(array):  # Its imaginary part would be dropped.
        raise ValueError("its numbers are complex")
    with np.errstate(over="ignore"):
        return np.asarray(array, np.float32)


def _embed(
    function: Callable[[list[Any]], Any],
    read: Callable[[np.ndarray], Sequence[Any]],
    count: int,
    batch_size: int,
    name: str,
) -> np.ndarray:
    """All vectors of one function, float32 [N, ...]."""
    parts: list[np.ndarray] = []
    with progress(f"Calling {name} for {count:,} items", count) as advance:
        for start in range(0, count, batch_size):
            given = list(read(np.arange(start, min(start + batch_size, count))))
            found = function(given)
            try:
                part = _as_array(found)
            except (TypeError, ValueError, RuntimeError) as error:  # Of NumPy and of PyTorch.
                raise UserError(f"{name} returned no array of numbers: {error}.") from error
            _check_part(part, len(given), parts[0].shape[1:] if parts else None, name)
            parts.append(part)
            advance(len(given))
    return np.concatenate(parts)


def _check_part(part: np.ndarray, items: int, first: tuple[int, ...] | None, name: str) -> None:
    """Raises an error if a result has not the shape of the first one, or is not finite."""
    if part.ndim not in (2, 3) or len(part) != items or 0 in part.shape:
        raise UserError(
            f"{name} returned the shape {list(part.shape)} for {items} items; it must be "
            f"[{items}, D]."
        )
    if first is not None and part.shape[1:] != first:
        raise UserError(
            f"{name} returned vectors of shape {list(part.shape[1:])} after vectors of shape "
            f"{list(first)}; all must be equal."
        )
    if bad := count_not_finite(part):
        raise UserError(f"{name} returned {bad} of {items} vectors that are not finite in float32.")
