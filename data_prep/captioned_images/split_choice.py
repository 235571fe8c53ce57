"""A split by content: the same pictures get the same split for any names, order and layout.

A hash of the picture determines its split, so that pictures added later do not move others.
Pictures that would leak from training to test stay together: equal files, and pictures that share a
caption.
"""

import collections
from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from data_prep.captioned_images.captioned_pictures import BY_CONTENT
from data_prep.captioned_images.survey import Survey
from data_prep.reading.split_names import SPLITS, count_in_earlier
from xmodal.core.errors import UnexpectedFilesError

SHARE, MOST = 0.1, 5000
"""Share of the pictures in validation and in test, and the largest number of pictures there."""
LEAST = 2
"""Pictures in the smallest split: with a single one, retrieval is trivial."""

# A caption shared by more pictures is a label, such as "a dog".
_MOST_SHARED = 10


def choose_splits(survey: Survey, why_lost: Callable[[], str]) -> tuple[list[str], dict[str, int]]:
    """Returns the split of every picture, and two picture counts.

    `kept together` counts pictures that were put into the split of another picture; `copies in two
    splits` counts those with a copy in an earlier split according to the files.

    Splits given by the files are kept; missing ones are taken out of `train`.

    Args:
      survey: the pictures.
      why_lost: describes why pictures are not usable.

    Raises:
      UnexpectedFilesError: there are too few pictures, or only some have a split.
    """
    splits = np.array(survey.splits, dtype=object)
    named = set(splits[survey.usable]) if survey.usable.any() else set()
    if "" in named and len(named) > 1:
        sizes = collections.Counter(splits[survey.usable].tolist())
        first = survey.names[np.flatnonzero(survey.usable & (splits == ""))[0]]
        raise UnexpectedFilesError(
            f"{sizes.pop(''):,} of {int(survey.usable.sum()):,} pictures have no split; the first "
            f"is {first}; others are in {', '.join(f'{k} {n:,}' for k, n in sizes.items())}; give "
            f"them one{BY_CONTENT}"
        )
    splits[splits == ""] = "train"
    missing = [split for split in ("test", "validation") if split not in named]
    _, first, copies = np.unique(survey.digests, return_index=True, return_inverse=True)
    equal = np.stack([first[copies], np.arange(len(copies))], axis=1)
    pairs = np.concatenate([equal, _shared_captions(survey)])
    graph = coo_matrix((np.ones(len(pairs), np.int8), pairs.T), shape=(len(copies), len(copies)))
    groups = connected_components(graph, directed=False)[1]
    kept_together = np.bincount(groups)[groups] > 1
    _check_number(survey, splits, missing, why_lost)
    _take_out_of_train(survey, splits, missing, _places(survey, groups))
    _check_filled(survey, splits)
    usable = survey.usable
    notes = {
        "kept together": int((kept_together & usable).sum()) if missing else 0,
        "copies in two splits": count_in_earlier(copies[usable], splits[usable]),
    }
    return splits.tolist(), notes


def _take_out_of_train(
    survey: Survey, splits: np.ndarray, missing: list[str], places: np.ndarray
) -> None:
    """Moves a range of places, and so a share of the pictures, to every missing split."""
    free = survey.usable & (splits == "train")
    share = min(SHARE, MOST / max(int(free.sum()), 1))
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


def _shared_captions(survey: Survey) -> np.ndarray:
    """Pairs of pictures that share a caption with the same words, int [P, 2]."""
    usable = survey.usable[survey.caption_rows]
    pairs = np.stack([survey.caption_keys[usable], survey.caption_rows[usable].astype(np.uint64)])
    keys, rows = np.unique(pairs, axis=1).astype(np.uint64)
    _, start, count = np.unique(keys, return_index=True, return_counts=True)
    place = np.arange(len(keys)) - np.repeat(start, count)
    is_next = (place > 0) & (np.repeat(count, count) <= _MOST_SHARED)
    after = np.flatnonzero(is_next)
    return np.stack([rows[after - 1], rows[after]], axis=1).astype(np.int64)


def _places(survey: Survey, groups: np.ndarray) -> np.ndarray:
    """A number from 0 to 1 for every picture, the same for all in a group, float64 [N]."""
    own = np.array([int(digest[:13], 16) / 16**13 for digest in survey.digests])
    lowest = np.full(groups.max(initial=-1) + 1, np.inf)
    np.minimum.at(lowest, groups, own)
    return lowest[groups]


def _check_number(
    survey: Survey, splits: np.ndarray, missing: list[str], why_lost: Callable[[], str]
) -> None:
    usable = int((survey.usable & (splits == "train")).sum())
    if usable < LEAST * (1 + len(missing)):
        what = "usable picture" + "s" * (usable != 1)
        sizes = collections.Counter(splits[survey.usable].tolist())
        found = ", ".join(f"{split} {count:,}" for split, count in sizes.items())
        raise UnexpectedFilesError(
            f"{usable} {what} for training (found: {found or 'none'}); training, validation and "
            f"test need at least {LEAST * 3} with captions, and several hundred to learn anything"
            f"{BY_CONTENT if len(missing) < len(SPLITS) - 1 else ''}. {why_lost().strip()}"
        )


def _check_filled(survey: Survey, splits: np.ndarray) -> None:
    for split in SPLITS:
        if (survey.usable & (splits == split)).sum() < LEAST:
            raise UnexpectedFilesError(
                f"fewer than {LEAST} pictures are in {split}: copies and pictures with the same "
                "caption stay together, which here are nearly all; specify the splits in a "
                "column `split`"
            )
