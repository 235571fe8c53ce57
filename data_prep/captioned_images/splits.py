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

from data_prep.captioned_images.captioned_pictures import BY_CONTENT
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


def choose_splits(pictures: Sequence[Picked]) -> list[str]:
    """Sets the split of every picture that has none; missing splits are taken out of `train`.

    Returns:
      Where the splits come from, and which copies of pictures they keep together or apart.

    Raises:
      UnexpectedFilesError: there are too few pictures, or only some have a split.
    """
    sizes = collections.Counter(picture.split for picture in pictures)
    if "" in sizes and len(sizes) > 1:
        first = next(picture.name for picture in pictures if not picture.split)
        raise UnexpectedFilesError(
            f"{sizes['']:,} of {len(pictures):,} pictures have no split; the first is {first}; "
            f"give them one{BY_CONTENT}"
        )
    splits = np.array([picture.split or "train" for picture in pictures], dtype=object)
    missing = [split for split in ("test", "validation") if split not in sizes]
    _, first_of, copies = np.unique(
        [picture.digest for picture in pictures], return_index=True, return_inverse=True
    )
    equal = np.stack([first_of[copies], np.arange(len(copies))], axis=1)
    pairs = np.concatenate([equal, _shared_captions(pictures)]).astype(np.int64)
    graph = coo_matrix((np.ones(len(pairs), np.int8), pairs.T), shape=(len(copies), len(copies)))
    groups = connected_components(graph, directed=False)[1]
    # A number from 0 to 1 for every picture, the same for all in a group.
    lowest = np.full(len(copies), np.inf)
    np.minimum.at(lowest, groups, [int(each.digest[:13], 16) / 16**13 for each in pictures])
    _take_out_of_train(splits, missing, lowest[groups])
    if least := [split for split in SPLITS if (splits == split).sum() < LEAST]:
        raise UnexpectedFilesError(
            f"fewer than {LEAST} of {len(pictures)} usable pictures are in {least[0]}; copies and "
            "pictures with the same caption stay together. Add pictures, or specify the splits in "
            f"a column `split`{BY_CONTENT}"
        )
    for picture, split in zip(pictures, splits.tolist(), strict=True):
        picture.split = split
    out = f", {' and '.join(reversed(missing))} out of train by content" if missing else ""
    notes = ["by content" if sizes.keys() == {""} else f"as given by the files{out}"]
    if missing and (together := int((np.bincount(groups)[groups] > 1).sum())):
        notes.append(f"{together:,} copies or images with a shared caption are kept together")
    if copied := count_in_earlier(copies, splits.tolist()):
        notes.append(
            f"warning: {copied:,} images of validation or test have a copy in an earlier split"
        )
    return notes


def _take_out_of_train(splits: np.ndarray, missing: list[str], places: np.ndarray) -> None:
    """Moves a range of places, and so a share of the pictures, to every missing split."""
    free = splits == "train"
    share = min(SHARE, MOST / max(int(free.sum()), 1))
    start = 0.0
    for split in missing:
        # In a small folder, as many whole groups as are needed.
        least = np.sort(places[free & (places >= start)])[:LEAST]
        stop = max([start + share, *np.nextafter(least[-1:], 1)])
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
