"""Test sentences that also occur among the training captions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from data_prep.same_text import text_key
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import read_captions
from xmodal.data.evaluated_split import EvalSplit


class Seen(NamedTuple):
    """Number of distinct sentences in a set, and how many of them are training captions."""

    seen: int
    sentences: int


def count_seen(
    config: Mapping[str, Any] | DataConfig, train_split: str, split: EvalSplit
) -> dict[str, Seen]:
    """Counts, for every set of a split of sentence pairs, the sentences seen in training.

    Two texts are equal if their words are equal, ignoring case and punctuation.

    Args:
      config: `config.data` of the training captions.
      train_split: their split.
      split: split of sentence pairs, with the label column `set`.

    Raises:
      DatasetMissingError: the training dataset is missing.
    """
    known = {text_key(text) for text in read_captions(config, train_split)}
    sets = np.asarray(split.labels["set"])[split.caption_rows]
    keys = np.array([text_key(text) for text in split.caption_texts], object)
    found = {}
    for name in dict.fromkeys(sets):
        sentences = set(keys[sets == name])
        found[name] = Seen(len(sentences & known), len(sentences))
    return found
