"""Evaluates any model from two embedding functions or from its files."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import PIL.Image

from xmodal.config import UserError, suggest
from xmodal.evals import Embeddings, Evaluation, from_files, judge, make_evaluator, read_options
from xmodal.evals.evaluators import Split
from xmodal.losses.similarity import SIMILARITIES
from xmodal.preprocessing.images import to_rgb
from xmodal.progress import progress

if TYPE_CHECKING:
    from xmodal.data import EvalSplit

_OF_FILES = ("embeddings", "scores", "rankings")


def evaluate(
    *,
    embed_images: Callable[[list[PIL.Image.Image]], Any] | None = None,
    embed_texts: Callable[[list[str]], Any] | None = None,
    dataset: str = "",
    config: str = "images",
    split: str = "test",
    data_dir: str = "",
    manual_dir: str = "",
    ratings_dir: str = "",
    annotations: Any = "",
    similarity: str | None = None,
    batch_size: int = 64,
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

    Alternatively, embeddings, scores or ranked lists are read from files and evaluated on the
    labels released for MS-COCO: see `xmodal.evals.evaluate`, whose arguments this function also
    takes.

    A dataset of captions and images is evaluated by its retrieval boards and ratings, a dataset of
    sentence pairs (`dataset="semeval_sts", config="pairs"`) by STS correlations.

    Args:
      embed_images: at most `batch_size` PIL images in RGB -> numbers [b, D] or [b, K, D], as a
        PyTorch tensor or an array that NumPy reads; None for a model of texts.
      embed_texts: the same for texts; None for a model of images.
      dataset: one of `data_prep.BUILDERS`.
      config: TFDS builder config of the dataset.
      split: split of the dataset or labels.
      data_dir: folder of prepared datasets; "" for TFDS's own.
      manual_dir: folder of the files that the dataset is built from.
      ratings_dir: folder of the released CSV files of Crisscrossed Captions.
      annotations: folder of the labels released for MS-COCO.
      similarity: a name in `xmodal.losses.similarity.SIMILARITIES`, such as "cosine" or "dot".
      batch_size: items per call of a function.
      name: name of the model's row; by default "model", or that of the file.
      **files: see `xmodal.evals.evaluate`.

    Raises:
      UserError: an argument, a file or the result of a function cannot be used.
    """
    functions = {"image": embed_images, "text": embed_texts}
    functions = {side: function for side, function in functions.items() if function is not None}
    if not functions:
        if not any(files.get(kind) is not None for kind in _OF_FILES):
            raise UserError(
                "Pass embed_images and embed_texts, or one of embeddings, scores and rankings."
            )
        files |= {"annotations": annotations, "split": split, "similarity": similarity}
        return from_files.evaluate(name=name, **files)
    if files:
        raise UserError(f"{sorted(files)} cannot be used with embedding functions.")
    similarity = _checked(dataset, similarity)
    section = {
        "dataset": dataset,
        "config": config,
        "data_dir": data_dir,
        "manual_dir": manual_dir,
        "ratings_dir": ratings_dir,
        # The functions get whole pictures; it only matters whether there are any.
        "image": {"size": 1} if "image" in functions else None,
        "text": {},
    }
    items = _prepared(section, split)
    # For sentence pairs with scores, the metric is the correlation, as in STS.
    kind = {"type": "pairs"} if items.has_pairs else {"type": "boards", "annotations": annotations}
    options = read_options({dataset: kind})[dataset]
    evaluator = make_evaluator(dataset, options, cast(Split, items), sorted(functions))
    embeddings = _embeddings(items, functions, batch_size, f"{dataset} {split}", similarity)
    return judge(evaluator, embeddings, name=name or "model")


def _checked(dataset: str, similarity: str | None) -> str:
    if not dataset:
        raise UserError("dataset is empty: name the dataset whose items the functions embed.")
    if similarity is None or similarity not in SIMILARITIES:
        raise UserError(f"similarity is {similarity!r}; {suggest([str(similarity)], SIMILARITIES)}")
    return similarity


def _prepared(section: dict[str, Any], split: str) -> "EvalSplit":
    from xmodal import data  # Imports TensorFlow.

    data.prepare(section, splits=[split])
    return data.eval_split(section, split=split)


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
            f"{shapes['text']}; the shapes have to be equal."
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
    return PIL.Image.fromarray(to_rgb(PIL.Image.open(io.BytesIO(encoded))))


def _as_array(found: Any) -> np.ndarray:
    # PyTorch tensors may have gradients, be on a GPU or be bfloat16; NumPy can read none of these.
    if hasattr(found, "detach"):
        found = found.detach().float().cpu()
    return np.asarray(found, np.float32)


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
            except (TypeError, ValueError) as error:
                raise UserError(f"{name} returned no array of numbers: {error}.") from error
            if part.ndim not in (2, 3) or len(part) != len(given):
                raise UserError(
                    f"{name} returned the shape {list(part.shape)} for {len(given)} items; it has "
                    f"to be [{len(given)}, D]."
                )
            parts.append(part)
            advance(len(given))
    return np.concatenate(parts)
