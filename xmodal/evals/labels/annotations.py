"""Labels of the COCO boards, from the files their authors released."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xmodal import cxc_files
from xmodal.evals.boards.definitions import RATING_SIDES, RETRIEVAL_TASKS
from xmodal.evals.boards.positions import Positions
from xmodal.evals.boards.types import Labels
from xmodal.evals.labels.released import ReleasedFiles, read_categories, read_ids, read_lists
from xmodal.options import UserError

_DATASET = "coco_captions"
_SPLITS = {"test": "test", "validation": "validation", "val": "validation"}
# Split -> caption ids in the order of Karpathy's split; from ECCV Caption and from PCME.
_ORDERS = {"test": "coco_test_ids.npy", "validation": "coco_dev_ids.npy"}
_FOLD_CAPTIONS = 5000
_OWN = "original_caption_to_image.json"
# Released lists of the test split: their files start with the name.
_LISTS = ("eccv", "cxc")
_DIRECTIONS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}
_ENDS = ("left_ids", "right_ids")
_NOUNS = {"image": "image", "text": "caption"}
_CATEGORIES = ("val2014_categories.npz", "instances_val2014.json")


@dataclasses.dataclass(frozen=True)
class Annotations:
    """Everything the released files say about one split; see `xmodal.evals.boards.types.Labels`.

    Attributes:
      name: of the dataset.
      split: `test` or `validation`.
      image_ids: int64 [N], in the order of their first caption.
      caption_ids: int64 [M], in Karpathy's order where that was released.
      caption_image_ids: int64 [M].
      ratings: rating task -> `left_ids`, `right_ids`, `scores`.
      lists: released list -> retrieval task -> (query ids, gallery ids).
      categories: uint8 [N, 80], or None.
      caption_categories: uint8 [M, 80], of the images of the captions, or None.
      folds: int32 [N], thousands of images in Karpathy's order, or None.
      partial: how much is here of a split that is not whole, or "".
    """

    name: str
    split: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    ratings: Mapping[str, Mapping[str, np.ndarray]]
    lists: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]
    categories: np.ndarray | None = None
    caption_categories: np.ndarray | None = None
    folds: np.ndarray | None = None
    partial: str = ""


def read_annotations(folder: str | Path, split: str, dataset: str = _DATASET) -> Annotations:
    """Reads what a folder has of the released files, wherever they lie below it.

    The galleries are in the released order, not in that of any saved embeddings, so that ties
    fall alike for everybody.

    Args:
      folder: of the CSV files of Crisscrossed Captions, the JSON files and `coco_test_ids.npy` of
        ECCV Caption, and COCO's `instances_val2014.json`; some of them may be missing.
      split: `test` or `validation` (also `val`).
      dataset: `coco_captions`, the only one with released files.

    Raises:
      UserError: the folder or what makes the galleries is missing, or a file is not as released.
    """
    if dataset != _DATASET:
        raise UserError(f"There are no released files of {dataset!r}, only of {_DATASET!r}.")
    if split not in _SPLITS:
        raise UserError(f"Unknown split {split!r}; known: {', '.join(_SPLITS)}.")
    split = _SPLITS[split]
    files = ReleasedFiles(folder, _known_names(split))
    ratings = {}
    for task in cxc_files.TASKS:
        if path := files.get(f"{task}_{cxc_files.SPLITS[split]}.csv"):
            ratings[task] = cxc_files.read_cxc_file(path, task)
    caption_ids, caption_image_ids, ordered = _read_galleries(files, split, ratings.get("sits"))
    image_ids, first = np.unique(caption_image_ids, return_index=True)
    image_ids, first = image_ids[np.argsort(first)], np.sort(first)
    categories = caption_categories = None
    if path := next(filter(None, map(files.get, _CATEGORIES)), None):
        categories = read_categories(path, image_ids)
        caption_categories = categories[Positions("image", image_ids)(caption_image_ids)]
    return Annotations(
        name=dataset,
        split=split,
        image_ids=image_ids,
        caption_ids=caption_ids,
        caption_image_ids=caption_image_ids,
        ratings=ratings,
        lists=_read_lists(files),
        categories=categories,
        caption_categories=caption_categories,
        folds=(first // _FOLD_CAPTIONS).astype(np.int32) if ordered else None,
    )


def restrict(
    labels: Labels, image_ids: np.ndarray | None = None, caption_ids: np.ndarray | None = None
) -> Labels:
    """The same labels on the items that exist; all that mention another item are dropped.

    Args:
      labels: of a split.
      image_ids: int [K], images that exist; others than the split's are ignored. None for all.
      caption_ids: int [L], captions that exist, likewise.

    Returns:
      `labels` itself if nothing is missing, else labels with the sentence `partial` and without
      folds. Captions stay without their image. Positives outside of the whole split, which can
      never be found, stay as well.

    Raises:
      UserError: none of the images or captions exist.
    """
    wholes = {"image": labels.image_ids, "text": labels.caption_ids}
    given = {"image": image_ids, "text": caption_ids}
    keep = {
        kind: np.ones(len(ids), bool) if given[kind] is None else np.isin(ids, given[kind])
        for kind, ids in wholes.items()
    }
    for kind, kept in keep.items():
        if not kept.any():
            raise UserError(
                f"None of the {len(given[kind])} {_NOUNS[kind]} ids is among the {len(kept)} of "
                f"{labels.name} {getattr(labels, 'split', '')}: another split?"
            )
    if all(kept.all() for kept in keep.values()):
        return labels
    gone = {kind: ids[~keep[kind]] for kind, ids in wholes.items()}

    def rows(kind: str, values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[keep[kind]]

    return Annotations(
        name=labels.name,
        split=getattr(labels, "split", ""),
        image_ids=rows("image", labels.image_ids),
        caption_ids=rows("text", labels.caption_ids),
        caption_image_ids=rows("text", labels.caption_image_ids),
        ratings={
            task: _restrict_ratings(task, rated, gone) for task, rated in labels.ratings.items()
        },
        lists={
            name: {task: _restrict_list(task, pairs, gone) for task, pairs in tasks.items()}
            for name, tasks in getattr(labels, "lists", {}).items()
        },
        categories=rows("image", getattr(labels, "categories", None)),
        caption_categories=rows("text", getattr(labels, "caption_categories", None)),
        partial=" and ".join(
            f"{kept.sum():,} of {len(kept):,} {_NOUNS[kind]}s"
            for kind, kept in keep.items()
            if not kept.all()
        ),
    )


def _known_names(split: str) -> set[str]:
    ratings = {f"{task}_{cxc_files.SPLITS[split]}.csv" for task in cxc_files.TASKS}
    names = {_ORDERS[split], *_CATEGORIES, *ratings}
    if split == "test":
        names |= {_OWN} | {
            f"{name}_{side}.json" for name in _LISTS for side in _DIRECTIONS.values()
        }
    return names


def _read_galleries(
    files: ReleasedFiles, split: str, sits: Mapping[str, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Captions [M], their images [M], and whether they are in the released order."""
    order = files.get(_ORDERS[split])
    if own := files.get(_OWN):
        captions, images = read_lists(own)
    elif sits is not None:
        original = sits["methods"] == "c2i_original"
        captions, images = (sits[side][original].astype(np.int64) for side in _ENDS)
    else:
        raise UserError(
            f"{files.folder} does not say which captions and images are the {split} split: add "
            f"sits_{cxc_files.SPLITS[split]}.csv"
            + (f", or {_OWN} and {_ORDERS[split]}." if split == "test" else ".")
        )
    if order is None:
        return captions, images, False
    ids = read_ids(order)
    at = Positions("caption", captions).find(ids)
    if len(ids) != len(captions) or (at < 0).any():
        raise UserError(
            f"{order} lists {len(ids)} captions and {own or 'the SITS ratings'} {len(captions)}, "
            f"{(at >= 0).sum()} of them the same: take both as released."
        )
    return ids, images[at], True


def _read_lists(files: ReleasedFiles) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    lists: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for name in _LISTS:
        for task, side in _DIRECTIONS.items():
            if path := files.get(f"{name}_{side}.json"):
                lists.setdefault(name, {})[task] = read_lists(path)
    return lists


def _restrict_ratings(
    task: str, rated: Mapping[str, np.ndarray], gone: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    kinds = RATING_SIDES[task][:2]
    lost = [np.isin(rated[side], gone[kind]) for side, kind in zip(_ENDS, kinds, strict=True)]
    return {key: column[~(lost[0] | lost[1])] for key, column in rated.items()}


def _restrict_list(
    task: str, pairs: tuple[np.ndarray, np.ndarray], gone: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    kinds = RETRIEVAL_TASKS[task]
    lost = [np.isin(ids, gone[kind]) for ids, kind in zip(pairs, kinds, strict=True)]
    return tuple(ids[~(lost[0] | lost[1])] for ids in pairs)
