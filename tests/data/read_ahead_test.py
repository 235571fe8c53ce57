"""Batches that threads compute ahead of their consumer."""

import queue

import numpy as np
import pytest

from xmodal.data.read_ahead import read_ahead


def _make_batch(number):
    return {"number": np.array([number])}


@pytest.mark.parametrize(("ahead", "count"), [(0, 5), (3, 5), (9, 5), (1, 0)])
def test_every_batch_comes_once_and_in_order(ahead, count):
    batches = read_ahead(_make_batch, range(count), ahead)
    assert [int(batch["number"][0]) for batch in batches] == list(range(count))


def test_the_first_batches_are_made_before_one_is_asked_for():
    made: queue.Queue[int] = queue.Queue()

    def make_batch(number):
        made.put(number)
        return _make_batch(number)

    batches = read_ahead(make_batch, range(9), 3)
    assert {made.get(timeout=60) for _ in range(3)} == {0, 1, 2}
    batches.close()
    assert made.empty()
