"""Converts embeddings to the scheme's form: one vector per image and per caption group."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_prep.sampling.groups import Groups, positions
from xmodal.core.errors import UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class EncodedItems:
    """Embeddings of the items of one kind by one encoder.

    Attributes:
      place: where they come from, for errors.
      kind: "caption" or "image".
      ids: int64 [K].
      vectors: floats [K, D].
    """

    place: str
    kind: str
    ids: np.ndarray
    vectors: np.ndarray


def embedded_groups(
    encoders: Sequence[EncodedItems], groups: Groups, *, partial: bool = False
) -> tuple[Groups, dict[str, list[np.ndarray]]]:
    """Sorts embeddings in the order of the groups.

    Args:
      encoders: encoders of captions and images; a group's vector is the mean of its captions'.
      groups: groups of a split.
      partial: leave out images if an encoder lacks them or one of their captions, or if a vector is
        zero; otherwise they are an error.

    Returns:
      The remaining groups, and kind -> float64 [N, D] of every encoder of that kind.
    """
    vectors: dict[str, list[np.ndarray]] = {"caption": [], "image": []}
    usable = np.ones(len(groups), bool)
    for encoder in encoders:
        rows = _group_vectors(encoder, groups)
        vectors[encoder.kind].append(rows)
        lacking = ~rows.any(axis=1)
        if lacking.any() and not partial:
            raise UnexpectedFilesError(
                f"{encoder.place} has no direction for {lacking.sum():,} of the {len(groups):,} "
                f"images of the split, the first is {groups.image_ids[lacking.argmax()]}: their "
                f"{encoder.kind} embeddings are missing or zero. Embed them, or pass --partial to "
                "sample among the others."
            )
        usable &= ~lacking
    if usable.sum() < 2:
        places = ", ".join(encoder.place for encoder in encoders)
        raise UnexpectedFilesError(
            f"{places}: {usable.sum()} images of the split have all embeddings, and pairs need "
            "two. Are the embeddings of another split?"
        )
    kept = {kind: [rows[usable] for rows in each] for kind, each in vectors.items()}
    return groups.take(usable), kept


def _group_vectors(encoder: EncodedItems, groups: Groups) -> np.ndarray:
    """One vector per image, float64 [N, D]; zero if it is not known."""
    if encoder.vectors.ndim != 2:
        raise UnexpectedFilesError(
            f"{encoder.place} has {encoder.vectors.shape[1]} vectors of every {encoder.kind}; the "
            "scheme compares single vectors, so save one, for instance their mean."
        )
    wanted = groups.caption_ids if encoder.kind == "caption" else groups.image_ids
    row = positions(encoder.ids, wanted)
    found = row >= 0
    rows = encoder.vectors[row].astype(np.float64) * found[:, None]
    if encoder.kind == "image":
        return rows
    complete = np.bincount(groups.owners, found) == groups.sizes
    return groups.means(rows) * complete[:, None]
