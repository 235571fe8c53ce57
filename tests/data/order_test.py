"""The order of examples is a permutation per epoch and depends only on seed and step."""

import numpy as np
import pytest

from xmodal.data.order import Order


def test_an_epoch_is_a_permutation_short_of_the_last_partial_batch():
    order = Order(seed=3, num_examples=103, batch_size=10)
    epochs = [
        np.concatenate([order.examples(step) for step in range(first, first + 10)])
        for first in (0, 10, 20)
    ]
    for epoch in epochs:
        assert len(set(epoch.tolist())) == 100
        assert set(epoch.tolist()) <= set(range(103))
    dropped = [set(range(103)) - set(epoch.tolist()) for epoch in epochs]
    assert dropped[0] != dropped[1]
    assert [order.epoch(step) for step in (0, 9, 10, 29, 30)] == [0, 0, 1, 2, 3]


def test_the_stream_never_changes():
    # A run resumed with newer libraries must continue in the same order. These numbers may change
    # only with a release that announces it.
    order = Order(seed=7, num_examples=12, batch_size=6)
    assert order.examples(3).tolist() == [4, 9, 10, 2, 7, 8]
    assert order.caption_draws(3, 1)[:2, 0].tolist() == [6168028465990487084, 3428120277114071548]


@pytest.mark.parametrize("batch_size", [1, 7, 20])
def test_draws_and_seeds_follow_the_example_and_not_the_batch(batch_size):
    reference, order = Order(5, 20, 20), Order(5, 20, batch_size)
    draws = dict(zip(reference.examples(0), reference.caption_draws(0, 3), strict=True))
    seeds = dict(zip(reference.examples(0), reference.augmentation_seeds(0), strict=True))
    for step in range(20 // batch_size):
        for row, example in enumerate(order.examples(step)):
            np.testing.assert_array_equal(order.caption_draws(step, 3)[row], draws[example])
            np.testing.assert_array_equal(order.augmentation_seeds(step)[row], seeds[example])
    assert len({tuple(seed) for seed in seeds.values()}) == 20
