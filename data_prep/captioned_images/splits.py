"""A split by content: the same pictures get the same split for any names, order and layout.

A hash of the picture determines its split, so that pictures added later do not move others.
Pictures that would leak from training to test stay together: equal files, and pictures that share a
caption.
"""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from data_prep.captioned_images.options import BY_CONTENT
from data_prep.reading.split_names import SPLITS, count_in_earlier
from data_prep.same_text import text_key
from xmodal.core.errors import UnexpectedFilesError

SHARE, MOST = 0.1, 5000
"""Share of the pictures in validation and in test, and the largest number of pictures there."""
LEAST = 2
"""Pictures in the smallest split: with a single one, retrieval is trivial."""

# A caption shared by more pictures is a label, such as "a dog".
_MOST_SHARED = 10


@dataclasses.dataclass
class Picked:
    """A picture of the dataset.

    Attributes:
      name: its unique name.
      captions: its captions.
      split: its split; "" if the files do not say.
      digest: SHA-256 of its content, hexadecimal.
      image_id: its position in the sorted list of names.
      caption_id: id of its first caption; the others follow.
    """

    name: str
    captions: tuple[str, ...]
    split: str
    digest: str
    image_id: int = 0
    caption_id: int = 0


@dataclasses.dataclass(frozen=True)
class SplitNotes:
    """What is said about the splits.

    Attributes:
      rule: where the splits come from.
      together: number of pictures that were put into the split of another picture.
      copied: number of pictures with a copy in an earlier split according to the files.
    """

    rule: str
    together: int
    copied: int


def choose_splits(pictures: Sequence[Picked]) -> SplitNotes:
    """Sets the split of every picture that has none; missing splits are taken out of `train`.

    Raises:
      UnexpectedFilesError: there are too few pictures, or only some have a split.
    """
    sizes = collections.Counter(picture.split for picture in pictures)
    found = ", ".join(f"{split} {count:,}" for split, count in sizes.items() if split)
    if "" in sizes and len(sizes) > 1:
        first = next(picture.name for picture in pictures if not picture.split)
        raise UnexpectedFilesError(
            f"{sizes['']:,} of {len(pictures):,} pictures have no split; the first is {first}; "
            f"others are in {found}; give them one{BY_CONTENT}"
        )
    splits = np.array([picture.split or "train" for picture in pictures], dtype=object)
    missing = [split for split in ("test", "validation") if split not in sizes]
    if (count := int((splits == "train").sum())) < LEAST * (1 + len(missing)):
        raise UnexpectedFilesError(
            f"{count} usable picture{'s' * (count != 1)} for training (found: {found or 'none'}); "
            f"training, validation and test need at least {LEAST * 3} with captions, and several "
            f"hundred to learn anything{BY_CONTENT if len(missing) < len(SPLITS) - 1 else ''}"
        )
    _, first_of, copies = np.unique(
        [picture.digest for picture in pictures], return_index=True, return_inverse=True
    )
    equal = np.stack([first_of[copies], np.arange(len(copies))], axis=1)
    pairs = np.concatenate([equal, _shared_captions(pictures)])
    graph = coo_matrix((np.ones(len(pairs), np.int8), pairs.T), shape=(len(copies), len(copies)))
    groups = connected_components(graph, directed=False)[1]
    # A number from 0 to 1 for every picture, the same for all in a group.
    lowest = np.full(groups.max() + 1, np.inf)
    np.minimum.at(lowest, groups, [int(each.digest[:13], 16) / 16**13 for each in pictures])
    _take_out_of_train(splits, missing, lowest[groups])
    for split in SPLITS:
        if (splits == split).sum() < LEAST:
            raise UnexpectedFilesError(
                f"fewer than {LEAST} pictures are in {split}: copies and pictures with the same "
                "caption stay together, which here are nearly all; specify the splits in a "
                "column `split`"
            )
    for picture, split in zip(pictures, splits.tolist(), strict=True):
        picture.split = split
    rule = "as given by the files"
    if missing:
        rule += f", {' and '.join(reversed(missing))} out of train by content"
    return SplitNotes(
        "by content" if sizes.keys() == {""} else rule,
        int((np.bincount(groups)[groups] > 1).sum()) if missing else 0,
        count_in_earlier(copies, splits.tolist()),
    )


def _take_out_of_train(splits: np.ndarray, missing: list[str], places: np.ndarray) -> None:
    """Moves a range of places, and so a share of the pictures, to every missing split."""
    free = splits == "train"
    share = min(SHARE, MOST / int(free.sum()))
    start = 0.0
    for split in missing:
        stop = start + share
        taken = free & (places >= start) & (places < stop)
        while taken.sum() < LEAST:
            # In a small folder, take the next group as a whole.
            later = np.where(free & ~taken & (places >= start), places, np.inf).min()
            if later == np.inf:
                break
            stop = np.nextafter(later, 1)
            taken = free & (places >= start) & (places < stop)
        splits[taken] = split
        free &= ~taken
        start = stop


def _shared_captions(pictures: Sequence[Picked]) -> np.ndarray:
    """Pairs of pictures that share a caption with the same words, int64 [P, 2]."""
    rows: dict[str, list[int]] = collections.defaultdict(list)
    for row, picture in enumerate(pictures):
        for key in {text_key(caption) for caption in picture.captions} - {""}:
            rows[key].append(row)
    pairs = [
        pair
        for same in rows.values()
        if len(same) <= _MOST_SHARED
        for pair in itertools.pairwise(same)
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)
