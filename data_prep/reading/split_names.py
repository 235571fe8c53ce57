"""The three splits of a dataset, and the words that stand for them."""

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.errors import UnexpectedFilesError

SPLITS = ("train", "validation", "test")
# `eval` is not here: it is validation to some and test to others.
SYNONYMS = {
    "train": ("train", "training", "trn", "trainset", "restval"),
    "validation": ("validation", "val", "valid", "valset", "dev", "devset", "development"),
    "test": ("test", "testing", "tst", "testset"),
}
_SPLIT_OF = {word: split for split, words in SYNONYMS.items() for word in words}


def name_key(name: str) -> str:
    """Returns a key that is equal for all spellings of a name.

    Spellings differ in Unicode form, case, blanks, and underscores in place of blanks.
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())


def split_of_name(name: str) -> str:
    """Returns the split that a word stands for, in any spelling; "" if it is none."""
    return _SPLIT_OF.get(name_key(name), "")


def count_in_earlier(pictures: np.ndarray, splits: Sequence[str]) -> int:
    """Returns the number of pictures with a copy in an earlier split.

    Args:
      pictures: int [N], equal for copies.
      splits: N names of `SPLITS`.
    """
    codes = np.array([SPLITS.index(split) for split in splits], np.int64)
    groups = np.unique(pictures, return_inverse=True)[1]
    earliest = np.full(len(groups), len(SPLITS))
    np.minimum.at(earliest, groups, codes)
    return int((codes > earliest[groups]).sum())


def check_split_names(counts: Mapping[str, int], where: str, remedy: str = "") -> None:
    """Checks that all names stand for a split; an empty one says nothing, and may occur.

    Args:
      counts: name -> its occurrences.
      where: their place in the files.
      remedy: the user's remedy, besides renaming them.

    Raises:
      UnexpectedFilesError: one does not stand for a split; lists all names, and the known ones.
    """
    unknown = [name for name in counts if name.strip() and not split_of_name(name)]
    if not unknown:
        return
    found = ", ".join(f"{name!r} {count:,}" for name, count in counts.items())
    known = "; ".join(f"{split} ({', '.join(words[1:])})" for split, words in SYNONYMS.items())
    raise UnexpectedFilesError(
        f"{where}: the split {unknown[0]!r} is not known; found: {found:.400}; known: {known}; "
        f"rename it{remedy}"
    )
