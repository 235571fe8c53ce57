"""Samples pairs of a split from embeddings or ratings, and reads what that needs."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.cxc.rating_files import KINDS, METHOD, SIDES, file_name
from data_prep.reading.csv_files import read_csv
from data_prep.reading.split_names import split_of_name
from data_prep.sampling import scheme
from data_prep.sampling.groups import Groups, make_groups, positions
from data_prep.sampling.nearest_neighbors import nearest
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs, read_folder
from xmodal.core.errors import UnexpectedFilesError

# Sampling method -> rating, in the order of the scheme.
METHODS = {
    "c2c_isim": "sts",
    "c2c_cocaption": "sts",
    "i2i_csim": "sis",
    "c2i_intrasim": "sits",
    "c2i_original": "sits",
}
# Digits of cosines: in float64, the sixteenth digit is noise that differs between machines.
_DECIMALS = 12
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
        sits = read_folder(place, split, need_scores=False).get("sits")
        original = np.zeros(0, bool) if sits is None else sits.methods == "c2i_original"
        if sits is None or not original.any():
            raise UnexpectedFilesError(
                f"{place} does not say which captions belong to which images: add "
                f"{file_name('sits', split)} with its c2i_original pairs, or name a csv file with "
                f"the columns {' and '.join(_COLUMNS)}"
            )
        return make_groups(sits.left_ids[original], sits.right_ids[original])
    ids = []
    for where, row in read_csv(place, columns=_COLUMNS):
        of_row = row.get("split", split).strip()
        if (split_of_name(of_row) or of_row) == split:
            try:
                ids.append([int(row[name]) for name in _COLUMNS])
            except ValueError as error:
                raise UnexpectedFilesError(f"{place.parent / where}: {error}") from error
    captions, images = np.array(ids, np.int64).reshape(-1, 2).T
    return make_groups(captions, images)


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
    for builder in builders.values():
        if {"image_id", "caption_ids"} <= set(builder.info.features):
            columns = read_columns(builder, split, ("image_id", "caption_ids"))
            sizes = [len(ids) for ids in columns["caption_ids"]]
            captions = np.concatenate(columns["caption_ids"])
            return make_groups(captions, np.repeat(columns["image_id"], sizes))
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
    from xmodal.evals.scores.files import load_embeddings  # Imports JAX.

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


def sample_within(
    groups: Groups,
    image_vectors: Sequence[np.ndarray],
    group_vectors: Sequence[np.ndarray],
    *,
    seed: int,
    drawn: bool = False,
) -> dict[str, np.ndarray]:
    """Pairs within a modality, to be rated first.

    Args:
      groups: groups of N images.
      image_vectors: [N, D] of every image encoder; if empty, there are no pairs of captions of
        different images.
      group_vectors: [N, D] of every caption encoder; if empty, there are no pairs of images.
      seed: seed of the draws; leaving out one kind of pairs does not change the others.
      drawn: whether to draw the captions of `c2c_isim` at random instead of in turn.

    Returns:
      Sampling method -> int [P, 2] by position.
    """
    pairs = {}
    if image_vectors:
        images = scheme.joined_images(nearest(v, decimals=_DECIMALS) for v in image_vectors)
        pairs["c2c_isim"] = (
            groups.draw(images, np.random.default_rng((seed, 0)))
            if drawn
            else scheme.captions_in_turn(images, groups)
        )
    pairs["c2c_cocaption"] = scheme.cocaption_cycles(groups, np.random.default_rng((seed, 1)))
    if group_vectors:
        pairs["i2i_csim"] = scheme.image_pairs(
            nearest(v, decimals=_DECIMALS) for v in group_vectors
        )
    return pairs


def sample_across(
    groups: Groups, rated: Mapping[str, RatedPairs], *, seed: int
) -> dict[str, np.ndarray]:
    """Caption-image pairs, made from rated pairs within the modalities.

    Args:
      groups: groups of the captions.
      rated: rating -> rated pairs; `sts` or `sis`, or both.
      seed: seed of the draws.

    Returns:
      Sampling method -> int [P, 2] by position.
    """
    sources = []
    for rating in ("sts", "sis"):
        if (own := rated.get(rating)) is not None:
            # Captions of the same image say nothing about other images.
            rows = own.methods == "c2c_isim" if rating == "sts" else np.ones(len(own), bool)
            located = locate(own, groups)[rows]
            images = groups.owners[located] if rating == "sts" else located
            sources += [(images, own.scores[rows])] if rows.any() else []
    rng = np.random.default_rng((seed, 2))
    return {
        "c2i_intrasim": scheme.cross_pairs(sources, groups, rng),
        "c2i_original": scheme.original_pairs(groups),
    }


def locate(pairs: RatedPairs, groups: Groups) -> np.ndarray:
    """Returns the positions in the groups of a split of pairs read from files, int64 [P, 2]."""
    ends = zip(KINDS[pairs.rating], (pairs.left_ids, pairs.right_ids), strict=True)
    found = np.stack([groups.find(kind, ids) for kind, ids in ends], axis=1)
    if len(lost := np.flatnonzero((found < 0).any(axis=1))):
        row = pairs.left_ids[lost[0]], pairs.right_ids[lost[0]]
        raise UnexpectedFilesError(
            f"{len(lost):,} of the {len(found):,} {pairs.rating} pairs name items that are not of "
            f"this split, the first is {row}; is it another split?"
        )
    return found


def file_contents(split: str, groups: Groups, sampled: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Files of pairs to be rated, one per rating.

    Args:
      split: split of the groups.
      groups: groups of the captions.
      sampled: sampling method -> int [P, 2] by position.

    Returns:
      File name -> content.
    """
    ids = {"caption": groups.caption_ids, "image": groups.image_ids}
    lines: dict[str, list[str]] = {}
    for method, pairs in sampled.items():
        rating = METHODS[method]
        header = ",".join((*SIDES[rating], METHOD))
        named = (ids[k][side].tolist() for k, side in zip(KINDS[rating], pairs.T, strict=True))
        rows = (f"{left},{right},{method}" for left, right in zip(*named, strict=True))
        lines.setdefault(file_name(rating, split), [header]).extend(rows)
    return {name: "\n".join([*each, ""]) for name, each in lines.items()}
