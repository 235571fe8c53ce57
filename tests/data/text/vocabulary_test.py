"""Vocabularies learned from words."""

import collections
import itertools

import numpy as np
import pytest

from xmodal.data.text.words import WORD_TOKENS, learn_words


@pytest.mark.parametrize("min_count", [1, 2, 5])
def test_frequent_words_come_first_and_rare_ones_are_cut(min_count):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefghijk"), 4)) for _ in range(12)] + ["<unk> zz"]
    vocabulary = learn_words(texts, str.split, min_count)
    counts = collections.Counter(" ".join(texts).split())
    assert vocabulary[:4] == list(WORD_TOKENS) == ["<pad>", "<start>", "<end>", "<unk>"]
    words = vocabulary[4:]
    assert set(words) == {w for w, n in counts.items() if n >= min_count} - set(WORD_TOKENS)
    assert ("zz" in words) == (min_count == 1)
    for left, right in itertools.pairwise(words):
        assert counts[left] > counts[right] or (counts[left] == counts[right] and left < right)
