"""Sentence pairs with human similarity scores, such as SemEval STS."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.data.config import DataConfig, parse
from xmodal.data.sources import Source

_COLUMNS = ("pair_id", "year", "dataset", "year_average", "sentence1", "sentence2", "score")


def sentence_pairs(
    config: Mapping[str, Any] | DataConfig, split: str
) -> dict[str, np.ndarray | list[str]]:
    """Returns the scored sentence pairs of a split as columns.

    Args:
      config: see `DataConfig`; `image` and `text` are not read.
      split: name of the split.

    Returns:
      `left` and `right`, texts [P]; `scores` float32 [P], 0 to 5; `sets`, names [P] such as
      "2012/MSRpar"; `averages` int32 [P], the year whose mean a set is part of, 0 for none; `ids`
      int32 [P].

    Raises:
      UserError: the dataset has no sentence pairs, or no such split.
    """
    columns = Source(parse(config), split, _COLUMNS).get(_COLUMNS)
    names = [name.decode() for name in columns["dataset"]]
    return {
        "left": [text.decode() for text in columns["sentence1"]],
        "right": [text.decode() for text in columns["sentence2"]],
        "scores": columns["score"],
        "sets": [f"{year}/{name}" for year, name in zip(columns["year"], names, strict=True)],
        "averages": columns["year_average"],
        "ids": columns["pair_id"],
    }
