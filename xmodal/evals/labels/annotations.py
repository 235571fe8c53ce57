"""Labels of the COCO boards, from the files their authors released."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from xmodal import cxc_files
from xmodal.config import UserError
from xmodal.evals.boards.definitions import RATING_SIDES, RETRIEVAL_TASKS
from xmodal.evals.boards.positions import Positions
from xmodal.evals.labels.known_files import CATEGORIES, LISTS, ORDERS, OWN, ratings_file, url_of
from xmodal.evals.labels.released import ReleasedFiles, read_categories, read_ids, read_lists

_DATASET = "coco_captions"
_FOLD_CAPTIONS = 5000
_ENDS = ("left_ids", "right_ids")
_NOUNS = {"image": "image", "text": "caption"}


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
      differences: how files differ from those that were released, one phrase per file.
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
    differences: tuple[str, ...] = ()


def read_annotations(folder: str | os.PathLike, split: str) -> Annotations:
    """Reads the released files in a folder or anywhere below it.

    The galleries are in the released order, not in that of any saved embeddings, so that ties
    fall alike for everybody. A file may hold a part of the released one, which `differences`
    then says.

    Args:
      folder: of the CSV files of Crisscrossed Captions, the JSON files and `coco_test_ids.npy` of
        ECCV Caption, and COCO's `instances_val2014.json`; some of them may be missing.
      split: `test` or `validation`; also `val`, as in the names of the files.

    Raises:
      UserError: the folder or the list of captions and images is missing, or a file is damaged.
    """
    found = [name for name, part in cxc_files.SPLITS.items() if split in (name, part)]
    if not found:
        raise UserError(f"Unknown split {split!r}; known: {', '.join(cxc_files.SPLITS)}.")
    (split,) = found
    files = ReleasedFiles(folder, split)
    ratings = {}
    for task in cxc_files.TASKS:
        if path := files.get(ratings_file(task, split)):
            ratings[task] = cxc_files.read_cxc_file(path, task)
            files.count(path, pairs=len(ratings[task]["scores"]))
    caption_ids, caption_image_ids, ordered = _read_galleries(files, split, ratings.get("sits"))
    image_ids, first = np.unique(caption_image_ids, return_index=True)
    image_ids, first = image_ids[np.argsort(first)], np.sort(first)
    categories = caption_categories = None
    if path := next(filter(None, map(files.get, CATEGORIES)), None):
        categories = read_categories(path, image_ids)
        files.count(path, categories=categories.shape[1], images=int(categories.any(1).sum()))
        caption_categories = categories[Positions("image", image_ids)(caption_image_ids)]
    lists = _read_lists(files)
    return Annotations(
        name=_DATASET,
        split=split,
        image_ids=image_ids,
        caption_ids=caption_ids,
        caption_image_ids=caption_image_ids,
        ratings=ratings,
        lists=lists,
        categories=categories,
        caption_categories=caption_categories,
        folds=(first // _FOLD_CAPTIONS).astype(np.int32) if ordered else None,
        differences=tuple(files.differences),
    )


def restrict(
    labels: Annotations,
    image_ids: np.ndarray | None = None,
    caption_ids: np.ndarray | None = None,
) -> Annotations:
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
                f"{labels.name} {labels.split}: another split?"
            )
    if all(kept.all() for kept in keep.values()):
        return labels
    gone = {kind: ids[~keep[kind]] for kind, ids in wholes.items()}

    def rows(kind: str, values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[keep[kind]]

    return dataclasses.replace(
        labels,
        image_ids=rows("image", labels.image_ids),
        caption_ids=rows("text", labels.caption_ids),
        caption_image_ids=rows("text", labels.caption_image_ids),
        ratings={
            task: _restrict_ratings(task, rated, gone) for task, rated in labels.ratings.items()
        },
        lists={
            name: {task: _restrict_list(task, pairs, gone) for task, pairs in tasks.items()}
            for name, tasks in labels.lists.items()
        },
        categories=rows("image", labels.categories),
        caption_categories=rows("text", labels.caption_categories),
        folds=None,
        partial=" and ".join(
            f"{kept.sum():,} of {len(kept):,} {_NOUNS[kind]}s"
            for kind, kept in keep.items()
            if not kept.all()
        ),
    )


def _read_galleries(
    files: ReleasedFiles, split: str, sits: Mapping[str, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Captions [M], their images [M], and whether they are in the released order."""
    order = files.get(ORDERS[split])
    if own := files.get(OWN):
        captions, images = read_lists(own)
        files.count(own, queries=len(np.unique(captions)), positives=len(images))
    elif sits is not None:
        original = sits["methods"] == "c2i_original"
        captions, images = (sits[side][original].astype(np.int64) for side in _ENDS)
    else:
        raise UserError(
            f"{files.folder} does not say which captions and images are the {split} split: add "
            f"{ratings_file('sits', split)}"
            + (f", or {OWN} and {ORDERS[split]}." if split == "test" else ".")
        )
    if order is None:
        return captions, images, False
    ids = read_ids(order)
    files.count(order, captions=len(ids))
    at = Positions("caption", captions).find(ids)
    if len(ids) != len(captions) or (at < 0).any():
        urls = sorted({url_of(order), url_of(own) if own else cxc_files.HOME})
        raise UserError(
            f"{order} lists {len(ids)} captions and {own or 'the SITS ratings'} {len(captions)}, "
            f"{(at >= 0).sum()} of them the same: take both again from {' and '.join(urls)}"
        )
    return ids, images[at], True


def _read_lists(files: ReleasedFiles) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    lists: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for name, by_task in LISTS.items():
        for task, file in by_task.items():
            if path := files.get(file):
                lists.setdefault(name, {})[task] = queries, items = read_lists(path)
                files.count(path, queries=len(np.unique(queries)), positives=len(items))
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
