"""Labels of the COCO boards, from the files released by their authors."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from data_prep.cxc import cxc_files
from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS, RATING_SIDES
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.released import (
    CATEGORIES,
    LISTS,
    ORDERS,
    OWN,
    SHORTLIST,
    ReleasedFiles,
    read_categories,
    read_ids,
    read_lists,
    read_shortlist,
    url_of,
)
from xmodal.evals.labels.types import Labels

_DATASET = "coco_captions"
_FOLD_IMAGES = 1000
_ENDS = ("left_ids", "right_ids")


def read_annotations(folder: str | os.PathLike, split: str) -> Labels:
    """Reads the released files in a folder and its subfolders.

    The galleries are in the released order, not that of any saved embeddings, so that ties are
    broken the same way for everyone. A file may hold only part of the released one;
    `differences` then reports it.

    Args:
      folder: folder with the CSV files of Crisscrossed Captions, the JSON files and
        `coco_test_ids.npy` of ECCV Caption, COCO's `instances_val2014.json`, and Oscar's
        `test_img_keys_1k.tsv`; some of them may be missing.
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
    for rating in cxc_files.RATINGS:
        if path := files.get(cxc_files.file_name(rating, split)):
            ratings[rating] = cxc_files.read_cxc_file(path, rating)
    files.differences += cxc_files.describe_differences(ratings, split)
    caption_ids, caption_image_ids, ordered = _read_galleries(files, split, ratings.get("sits"))
    image_ids, first = np.unique(caption_image_ids, return_index=True)
    image_ids = image_ids[np.argsort(first)]
    categories = caption_categories = None
    if path := next(filter(None, map(files.get, CATEGORIES)), None):
        categories = read_categories(path, image_ids)
        files.count(path, categories=categories.shape[1], images=int(categories.any(1).sum()))
        caption_categories = categories[Positions("image", image_ids)(caption_image_ids)]
    lists = _read_lists(files)
    shortlist = None
    if path := files.get(SHORTLIST):
        shortlist = read_shortlist(path, image_ids)
        files.count(path, images=int(shortlist.sum()))
    return Labels(
        name=_DATASET,
        split=split,
        image_ids=image_ids,
        caption_ids=caption_ids,
        caption_image_ids=caption_image_ids,
        ratings=ratings,
        lists=lists,
        categories=categories,
        caption_categories=caption_categories,
        folds=(np.arange(len(image_ids)) // _FOLD_IMAGES).astype(np.int32) if ordered else None,
        shortlist=shortlist,
        differences=tuple(files.differences),
    )


def restrict(
    labels: Labels,
    image_ids: np.ndarray | None = None,
    caption_ids: np.ndarray | None = None,
) -> Labels:
    """Returns labels for existing items only; labels that mention other items are dropped.

    Args:
      labels: labels of a split.
      image_ids: int [K], existing images; those outside the split are ignored. None for all.
      caption_ids: int [L], existing captions, likewise.

    Returns:
      `labels` itself if nothing is missing, else labels with the sentence `partial` and without
      folds and shortlist. Captions are kept even without their image. Positives outside the whole
      split, which can never be found, are kept as well.

    Raises:
      UserError: none of the images or captions exist.
    """
    wholes = {"image": labels.image_ids, "text": labels.caption_ids}
    given = {"image": image_ids, "text": caption_ids}
    keep = {
        kind: np.ones(len(ids), bool) if given[kind] is None else np.isin(ids, given[kind])
        for kind, ids in wholes.items()
    }
    for kind, found in keep.items():
        if not found.any():
            raise UserError(
                f"None of the {len(given[kind])} {KINDS[kind]} ids are among the {len(found)} of "
                f"{labels.name} {labels.split}: another split?"
            )
    if all(found.all() for found in keep.values()):
        return labels
    gone = {kind: ids[~keep[kind]] for kind, ids in wholes.items()}

    def rows(kind: str, values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[keep[kind]]

    def kept(ends: Iterable[np.ndarray], kinds: Sequence[str]) -> np.ndarray:
        lost = [np.isin(ids, gone[kind]) for ids, kind in zip(ends, kinds, strict=True)]
        return ~(lost[0] | lost[1])

    ratings = {}
    for rating, rated in labels.ratings.items():
        stays = kept((rated[end] for end in _ENDS), RATING_SIDES[rating][:2])
        ratings[rating] = {key: column[stays] for key, column in rated.items()}
    lists: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {name: {} for name in labels.lists}
    for name, directions in labels.lists.items():
        for direction, pairs in directions.items():
            stays = kept(pairs, DIRECTIONS[direction])
            lists[name][direction] = tuple(ids[stays] for ids in pairs)
    return dataclasses.replace(
        labels,
        image_ids=rows("image", labels.image_ids),
        caption_ids=rows("text", labels.caption_ids),
        caption_image_ids=rows("text", labels.caption_image_ids),
        ratings=ratings,
        lists=lists,
        categories=rows("image", labels.categories),
        caption_categories=rows("text", labels.caption_categories),
        folds=None,
        shortlist=None,
        partial=" and ".join(
            f"{found.sum():,} of {len(found):,} {KINDS[kind]}s"
            for kind, found in keep.items()
            if not found.all()
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
            f"{files.folder} does not say which captions and images are in the {split} split: add "
            f"{cxc_files.file_name('sits', split)}"
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
            f"{(at >= 0).sum()} of them the same: get both again from {' and '.join(urls)}"
        )
    images = images[at]
    _check_neighbors(order, ids, images)
    return ids, images, True


def _check_neighbors(order: Path, ids: np.ndarray, images: np.ndarray) -> None:
    """Raises an error unless the captions [M] of every image [M] are neighbors in a file."""
    image, first, counts = np.unique(images, return_index=True, return_counts=True)
    by_image = np.argsort(first)
    expected = np.repeat(image[by_image], counts[by_image])
    wrong = images != expected
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{order} is not in the released order, which the folds of 1,000 images need: row "
            f"{row} is caption {ids[row]} of image {images[row]} instead of one of image "
            f"{expected[row]}; the captions of an image are neighbors. Get the file again from "
            f"{url_of(order)}"
        )


def _read_lists(files: ReleasedFiles) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    lists: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for name, by_direction in LISTS.items():
        for direction, file in by_direction.items():
            if path := files.get(file):
                lists.setdefault(name, {})[direction] = queries, items = read_lists(path)
                files.count(path, queries=len(np.unique(queries)), positives=len(items))
    return lists
