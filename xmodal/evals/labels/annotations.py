"""Labels of the COCO benchmarks, released by their authors, and labels of any dataset."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.coco_captions.categories import read_categories
from data_prep.cxc import cxc_files
from data_prep.eccv_labels.label_files import ENDS
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.folders import walk
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.definitions import (
    COCO,
    DIRECTIONS,
    KINDS,
    RATING_SIDES,
    STUDY,
    Definition,
    define,
    definitions_of,
)
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.judgments import read_judgments
from xmodal.evals.labels.split import Split
from xmodal.evals.labels.types import Labels
from xmodal.evals.scores.files import first_line

_FOLD_IMAGES = 1000
_ENDS = ("left_ids", "right_ids")
# Modality -> the fields of labels with a row per item.
_COLUMNS = {
    "image": ("image_ids", "categories"),
    "text": ("caption_ids", "caption_image_ids", "caption_categories"),
}
_OWN = "original_caption_to_image.json"
# Split -> caption ids in the order of Karpathy's split; from ECCV Caption and from PCME.
_ORDERS = {"test": "coco_test_ids.npy", "validation": "coco_dev_ids.npy"}
# The table has the same content as COCO's file, one row per image.
_CATEGORIES = ("val2014_categories.npz", "instances_val2014.json")
# Ids of test images, one per line, which Oscar and VinVL are evaluated on.
_SHORTLIST = "test_img_keys_1k.tsv"
# Released lists of the test split -> direction -> file.
_LISTS = {
    name: {direction: f"{name}_{end}.json" for direction, end in ENDS.items()}
    for name in ("eccv", "cxc")
}


def read_annotations(
    folder: str | os.PathLike, split: str, gallery: Mapping[str, np.ndarray] | None = None
) -> Labels:
    """Reads the released files in a folder and its subfolders, or those of a study.

    The galleries are in the released order, not that of any saved embeddings, so that ties are
    broken the same way for everyone.

    Args:
      folder: folder with the CSV files of Crisscrossed Captions, the JSON files and
        `coco_test_ids.npy` of ECCV Caption, COCO's `instances_val2014.json`, and Oscar's
        `test_img_keys_1k.tsv`; some of them may be missing. Also the output of `xmodal annotate
        aggregate`, which may name the labels, and judgments, see `judgments`, in a folder or in a
        single file.
      split: `test` or `validation`; also `val`, as in the names of the files; not read for labels
        of a study, which name their own.
      gallery: modality -> ids of the items, for judgments in a folder that does not name them.
    """
    split = "validation" if split == "val" else split
    files, study = _open(folder)
    dataset, split = study.get("dataset", COCO), study.get("split", split)
    if dataset == COCO:
        lookup("the splits of the annotations", split, cxc_files.SPLITS)
    # Some files exist for this split only.
    of_test = files if STUDY in files or split == "test" else {}
    ratings = _read_ratings(files, split)
    if _OWN in of_test:
        caption_ids, owners = read_lists(of_test[_OWN])
    elif "sits" in ratings:
        original = ratings["sits"]["methods"] == "c2i_original"
        caption_ids, owners = (ratings["sits"][end][original].astype(np.int64) for end in _ENDS)
    elif gallery and (judged := read_judgments(files, gallery)):
        image_ids, caption_ids = gallery["image"], gallery["text"]
        # Nothing is known about the images of the captions.
        return Labels(
            name=next(iter(judged)), split=split, image_ids=image_ids, caption_ids=caption_ids,
            caption_image_ids=-1 - np.arange(len(caption_ids)), ratings={}, lists=judged,
            definitions=_define_judged(judged), label_set=study["name"],
        )  # fmt: skip
    else:
        raise UserError(
            f"{folder} does not say which captions and images are in the {split} split: add "
            f"{cxc_files.file_name('sits', split)} or, for the test split, {_OWN}."
        )
    folds = categories = caption_categories = shortlist = None
    if order := files.get(_ORDERS.get(split, "")):
        ids = _read(order, lambda path: load_arrays(path).astype(np.int64))
        owners, caption_ids = owners[Positions("caption", caption_ids)(ids)], ids
    image_ids, first = np.unique(owners, return_index=True)
    image_ids = image_ids[np.argsort(first)]
    if order:
        folds = (np.arange(len(image_ids)) // _FOLD_IMAGES).astype(np.int32)
    if path := next(filter(None, map(files.get, _CATEGORIES)), None):
        found = _read(
            path, lambda path: read_categories(path.parent, [path.name] * (path.suffix == ".json"))
        )
        none = np.zeros(len(found.names), np.uint8)  # The labels of an image that the file lacks.
        categories = np.stack([found.labels.get(image, none) for image in image_ids.tolist()])
        caption_categories = categories[Positions("image", image_ids)(owners)]
    if path := of_test.get(_SHORTLIST):
        listed = _read(path, lambda path: [*map(int, path.read_text(encoding="utf-8").split())])
        shortlist = np.isin(image_ids, listed)
    labels = Labels(
        name=dataset, split=split, image_ids=image_ids, caption_ids=caption_ids,
        caption_image_ids=owners, ratings={}, lists={}, categories=categories,
        caption_categories=caption_categories, folds=folds, shortlist=shortlist,
        label_set=study["name"],
    )  # fmt: skip
    return _add(labels, of_test, files, ratings)


def add_annotations(labels: Labels, folder: str | os.PathLike, split: Split) -> Labels:
    """Returns the labels of a prepared dataset's split with those of a study or judgments.

    Args:
      labels: labels of the split.
      folder: folder of the labels, or a file of judgments.
      split: the items.
    """
    files, study = _open(folder)
    if study.get("dataset", labels.name) != labels.name:
        raise UserError(f"{folder} has labels of {study['dataset']}, not of {labels.name}.")
    labels = dataclasses.replace(labels, label_set=study["name"])
    return _add(labels, files, files, _read_ratings(files, split.split), split)


def _add(
    labels: Labels,
    listed: Mapping[str, Path],
    files: Mapping[str, Path],
    ratings: Mapping[str, Mapping[str, np.ndarray]],
    items: Split | None = None,
) -> Labels:
    """Labels with the lists in `listed`, the judgments in `files`, and ratings.

    Those that no benchmark of the dataset reads have a benchmark of their own.
    """
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    lists: dict[str, Any] = {}
    for name, directions in _LISTS.items():
        for direction in (x for x, file in directions.items() if file in listed):
            pairs = np.stack(read_lists(listed[directions[direction]]))
            if labels.name != COCO:  # Those of other splits are ignored.
                pairs = pairs[:, np.isin(pairs[0], ids[DIRECTIONS[direction][0]])]
            lists.setdefault(name, {})[direction] = tuple(pairs)
    lists |= read_judgments(files, ids, items)
    known = definitions_of(labels.name).values()
    used = {each.released for each in known}
    own = _define_judged({name: each for name, each in lists.items() if name not in used})
    if ratings and not any(each.rated for each in known):
        own["cxc"] = define("cxc", "cxc", rated=(*ratings,), correlations=(*ratings,))
    return dataclasses.replace(
        labels,
        lists={**labels.lists, **lists},
        ratings={**labels.ratings, **ratings},
        added=None if items is None else frozenset((*lists, *ratings)),
        definitions=own,
    )


def _define_judged(lists: Mapping[str, Mapping[str, Any]]) -> dict[str, Definition]:
    return {
        name: define("judged", name, directions=(*directions,), released=name)
        for name, directions in lists.items()
    }


def _open(folder: str | os.PathLike) -> tuple[dict[str, Path], dict[str, str]]:
    """Returns the files in a folder and its subfolders by name, and the content of `study.json`.

    `name` is the name of the labels; by default, that of the folder, and "" for a single file.
    """
    place = Path(folder)
    files: dict[str, Path] = {place.name: place} if place.is_file() else {}
    study = {"name": "" if files else place.resolve().name}
    for parent, names in () if files else walk(place):
        for name in names:
            files.setdefault(name, parent / name)
    if STUDY in files:
        study |= _read(files[STUDY], _read_json)
    return files, study


def _read_ratings(files: Mapping[str, Path], split: str) -> dict[str, dict[str, np.ndarray]]:
    """Rating -> columns of its file of the split, see `cxc_files.read_cxc_file`."""
    return {
        rating: cxc_files.read_cxc_file(files[name], rating)
        for rating in cxc_files.RATINGS
        if (name := cxc_files.file_name(rating, split)) in files
    }


def restrict(
    labels: Labels, image_ids: np.ndarray | None, caption_ids: np.ndarray | None
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
    """
    wholes = {"image": labels.image_ids, "text": labels.caption_ids}
    keep, parts = {}, []
    for kind, given in (("image", image_ids), ("text", caption_ids)):
        ids = wholes[kind]
        keep[kind] = np.isin(ids, ids if given is None else given)
        if given is not None and not keep[kind].any():
            raise UserError(
                f"None of the {len(given)} {KINDS[kind]} ids are among the {len(ids)} of "
                f"{labels.name} {labels.split}: another split?"
            )
        if not keep[kind].all():
            parts.append(f"{keep[kind].sum():,} of {len(ids):,} {KINDS[kind]}s")
    if not parts:
        return labels
    gone = {kind: wholes[kind][~kept] for kind, kept in keep.items()}

    def stay(pairs: Sequence[np.ndarray], kinds: Sequence[str]) -> np.ndarray:
        return ~(np.isin(pairs[0], gone[kinds[0]]) | np.isin(pairs[1], gone[kinds[1]]))

    changes: dict[str, Any] = {
        field: values[keep[kind]]
        for kind, fields in _COLUMNS.items()
        for field in fields
        if (values := getattr(labels, field)) is not None
    }
    changes["ratings"], changes["lists"] = {}, {name: {} for name in labels.lists}
    for rating, rated in labels.ratings.items():
        kept = stay([rated[end] for end in _ENDS], RATING_SIDES[rating])
        changes["ratings"][rating] = {key: column[kept] for key, column in rated.items()}
    for name, directions in labels.lists.items():
        for direction, pairs in directions.items():
            kept = stay(pairs, DIRECTIONS[direction])
            changes["lists"][name][direction] = tuple(ids[kept] for ids in pairs)
    changes |= {"folds": None, "shortlist": None, "partial": " and ".join(parts)}
    return dataclasses.replace(labels, **changes)


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    """Calls a reader of a released file; an error names the file."""
    try:
        return read(path)
    except (AttributeError, OverflowError, *DAMAGE) as error:
        raise UserError(
            f"{path} cannot be read ({first_line(error)}); get the released file again."
        ) from error


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8-sig"))


def read_lists(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns query ids and gallery ids, int64 [P] each, from a JSON object of id lists."""

    def read(path: Path) -> np.ndarray:
        content = _read_json(path)
        pairs = [(int(query), item) for query, items in content.items() for item in items]
        return np.array(pairs, np.int64).reshape(-1, 2).T

    queries, items = _read(path, read)
    return queries, items
