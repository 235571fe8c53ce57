"""Inputs of the sampling scheme: caption groups, and one vector per image and caption group."""

import pathlib

import numpy as np

from data_prep.cxc.rating_files import file_name
from data_prep.reading.csv_files import read_csv
from data_prep.reading.split_names import split_of_name
from data_prep.sampling.groups import Groups, make_groups, positions
from xmodal.apps.analysis.ratings.rated_pairs import read_folder
from xmodal.core.errors import UnexpectedFilesError

_COLUMNS = ("caption_id", "image_id")


def read_groups(place: pathlib.Path, split: str) -> Groups:
    """Reads the groups of a split.

    Args:
      place: a folder with the released `sits` file of the split, whose original pairs give the
        groups; or a csv file, gzipped or not, with the columns `caption_id`, `image_id` and, if it
        has more than one split, `split`.
      split: `train`, `validation` or `test`.
    """
    if place.is_dir():
        return _from_original_pairs(place, split)
    ids = []
    for where, row in read_csv(place, columns=_COLUMNS):
        of_row = row.get("split", split).strip()
        if (split_of_name(of_row) or of_row) == split:
            if not all(row[name].isdecimal() and len(row[name]) < 19 for name in _COLUMNS):
                names = " and ".join(repr(row[name]) for name in _COLUMNS)
                raise UnexpectedFilesError(f"{place.parent / where}: {names} are not ids")
            ids.append([int(row[name]) for name in _COLUMNS])
    captions, images = np.array(ids, np.int64).reshape(-1, 2).T
    return make_groups(captions, images, f"split {split!r} of {place}")


def _from_original_pairs(folder: pathlib.Path, split: str) -> Groups:
    pairs = read_folder(folder, split, need_scores=False)
    if "sits" not in pairs or "c2i_original" not in pairs["sits"].by_method():
        raise UnexpectedFilesError(
            f"{folder} does not say which captions belong to which images: add "
            f"{file_name('sits', split)} with its c2i_original pairs, or name a csv file with "
            f"the columns {' and '.join(_COLUMNS)}"
        )
    sits = pairs["sits"]
    original = sits.by_method()["c2i_original"]
    return make_groups(sits.left_ids[original], sits.right_ids[original], str(folder))


def read_dataset_groups(
    dataset: str, config: str | None, data_dir: str | None, split: str
) -> Groups:
    """Reads the groups of a split of a prepared dataset.

    Args:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config with `image_id` and `caption_ids`; None for the first that is prepared.
      data_dir: where TFDS keeps datasets; None for its default folder.
      split: name of the split.
    """
    from data_prep.prepared import open_configs, read_columns

    builders = {each.builder_config.name: each for each in open_configs(dataset, config, data_dir)}
    for name, builder in builders.items():
        if {"image_id", "caption_ids"} <= set(builder.info.features):
            columns = read_columns(builder, split, ("image_id", "caption_ids"))
            sizes = [len(ids) for ids in columns["caption_ids"]]
            captions = np.concatenate(columns["caption_ids"])
            place = f"{dataset}/{name}, split {split}"
            return make_groups(captions, np.repeat(columns["image_id"], sizes), place)
    raise UnexpectedFilesError(
        f"{dataset} (config {', '.join(builders)}) has no captions of images; name its config with "
        "captions by --config"
    )


def group_vectors(path: str, kind: str, groups: Groups) -> np.ndarray:
    """Reads one vector per image, float64 [N, D], in the order of the groups.

    Args:
      path: npz file of embeddings.
      kind: "image"; or "caption", for the mean of the embeddings of an image's captions.
      groups: groups of a split.
    """
    from xmodal.evals.scores.arrays import load_embeddings  # Imports JAX.

    saved = load_embeddings(path)
    ids, vectors, wanted = saved.image_ids, saved.images, groups.image_ids
    if kind == "caption":
        ids, vectors, wanted = saved.caption_ids, saved.captions, groups.caption_ids
    if vectors is None or vectors.ndim != 2:
        raise UnexpectedFilesError(
            f"{path} must have {kind}_ids and single {kind}_embeddings: the scheme compares single "
            "vectors."
        )
    row = positions(ids, wanted)
    rows, complete = vectors[row].astype(np.float64), row >= 0
    if kind == "caption":
        complete = np.bincount(groups.owners, complete) == groups.sizes
        rows = groups.means(rows)
    lacking = ~(complete & rows.any(axis=1))
    if lacking.any():
        raise UnexpectedFilesError(
            f"{path} has no direction for {lacking.sum():,} of the {len(groups):,} images of the "
            f"split, the first is {groups.image_ids[lacking.argmax()]}: their {kind} embeddings "
            "are missing or zero. Embed them."
        )
    return rows
