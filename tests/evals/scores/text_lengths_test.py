"""Padded lengths of texts, against all choices that are possible."""

import itertools

import numpy as np
import pytest

from xmodal.evals.scores.text_lengths import TextLengths


def pad(needed, lengths):
    return np.asarray(lengths)[np.searchsorted(lengths, needed)]


def cost(tokens, lengths, compiled=(), batch_size=8):
    """Tokens with padding, and 1000 for a new length, 500 if it is a multiple of 4."""
    batches = [batch[-1] for batch in np.split(np.sort(tokens), range(8, len(tokens), batch_size))]
    if max(batches) > lengths[-1]:
        return np.inf
    new = set(lengths) - set(compiled)
    return batch_size * pad(batches, lengths).sum() + sum(1000 if n % 4 else 500 for n in new)


@pytest.mark.parametrize("texts", [64, 301, 3000])
@pytest.mark.parametrize("compiled", [False, True])
def test_no_other_lengths_cost_less(texts, compiled):
    generator = np.random.default_rng(texts)
    lengths, known = TextLengths(), []
    if compiled:
        known = lengths.choose(np.array([7, 9] * 500), 12, batch_size=8)
    tokens = np.clip(generator.poisson(8, texts), 5, 11)
    chosen = lengths.choose(tokens, 12, batch_size=8)
    every = range(4, 13)
    choices = (c for n in range(1, 10) for c in itertools.combinations(every, n))
    least = min(cost(tokens, choice, known) for choice in choices)
    assert cost(tokens, chosen, known) == least
    assert chosen == sorted(set(chosen))
