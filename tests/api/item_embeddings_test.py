"""Several vectors per item, and an uncertainty."""

import numpy as np
import pytest

from xmodal import ItemEmbeddings, UserError
from xmodal.api.item_embeddings import join

VECTORS = np.random.default_rng(0).normal(size=(7, 3, 4)).astype(np.float32)
SIGMA = VECTORS.mean(1)


def test_one_vector_per_item_is_an_array():
    parts = [(VECTORS[:3, 0], None), (VECTORS[3:, 0], None)]
    joined = join(parts, "text")
    assert isinstance(joined, np.ndarray)
    np.testing.assert_array_equal(joined, VECTORS[:, 0])
    kept = join(parts, "text", keep_side=True)
    assert (kept.side, kept[2:4].side) == ("text", "text")
    np.testing.assert_array_equal(kept, VECTORS[:, 0])


def test_parts_are_joined_with_their_uncertainty():
    joined = join([(VECTORS[:3], SIGMA[:3]), (VECTORS[3:], SIGMA[3:])], "image")
    np.testing.assert_array_equal(joined.log_sigma, SIGMA)
    assert len(joined) == 7
    assert joined.shape == (7, 3, 4)
    assert joined.side == "image"
    np.testing.assert_array_equal(join([(VECTORS[:, 0], SIGMA)], "image").log_sigma, SIGMA)


def test_a_model_without_embeddings_is_named():
    with pytest.raises(UserError, match="w/vilt has no embeddings, only a cross-encoder; compare"):
        join([(VECTORS[:, 0, :0], None)], "image", name="w/vilt")


def test_items_are_chosen_as_of_an_array():
    some = ItemEmbeddings(VECTORS, SIGMA)[[5, 2]]
    np.testing.assert_array_equal(some.vector, VECTORS[[5, 2]])
    np.testing.assert_array_equal(some.log_sigma, SIGMA[[5, 2]])
    assert ItemEmbeddings(VECTORS)[2:4].log_sigma is None


def test_numpy_sees_the_vectors():
    np.testing.assert_array_equal(np.asarray(ItemEmbeddings(VECTORS, SIGMA)), VECTORS)
    assert np.asarray(ItemEmbeddings(VECTORS), np.float64).dtype == np.float64
