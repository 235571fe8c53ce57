"""Several vectors per item, and an uncertainty."""

import numpy as np

from xmodal import ItemEmbeddings

VECTORS = np.random.default_rng(0).normal(size=(7, 3, 4)).astype(np.float32)
SIGMA = VECTORS.mean(1)


def test_items_are_chosen_as_of_an_array():
    items = ItemEmbeddings(VECTORS, SIGMA, "text")
    assert (len(items), items.shape, items[2:4].side) == (7, (7, 3, 4), "text")
    np.testing.assert_array_equal(items[[5, 2]].vector, VECTORS[[5, 2]])
    np.testing.assert_array_equal(items[[5, 2]].log_sigma, SIGMA[[5, 2]])
    assert ItemEmbeddings(VECTORS)[2:4].log_sigma is None
    np.testing.assert_array_equal(np.asarray(items), VECTORS)
    assert np.asarray(items, np.float64).dtype == np.float64
