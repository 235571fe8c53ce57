import jax
import numpy as np
import pytest

from xmodal import models
from xmodal.config import UserError
from xmodal.models import bag_of_words

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(7, 5)).astype(np.float32)
IDS = np.int32([[1, 6, 6, 0], [3, 0, 0, 0], [0, 0, 0, 0]])
MASK = np.int32([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_adds_up_what_the_mask_keeps(pool):
    tower = bag_of_words.make_tower(vocab_size=7, width=5, pool=pool)
    embedding, state = tower.apply({"table": TABLE}, {}, {"text_ids": IDS, "text_mask": MASK})
    expected = np.stack([TABLE[1] + 2 * TABLE[6], TABLE[3], np.zeros(5)])
    expected[0] /= 3 if pool == "mean" else 1
    np.testing.assert_allclose(embedding.vector, expected, rtol=1e-6)
    assert state == {}
    in_order, _ = tower.apply({"table": TABLE}, {}, (IDS, MASK))
    np.testing.assert_array_equal(in_order.vector, embedding.vector)


def test_equals_the_baseline_of_the_evaluation(tmp_path):
    from xmodal.pretrained import WordVectors, embed_texts

    words = {word: row for row, word in enumerate(["a", "dog", "cat", "on", "the", "Mat", "."])}
    texts = ["a dog on the Mat .", "unknown"]
    expected, _ = embed_texts(texts, WordVectors(words, TABLE))
    ids = np.int32([[0, 1, 3, 4, 5, 6], [0] * 6])
    mask = np.int32([[1] * 6, [0] * 6])
    tower = bag_of_words.make_tower(vocab_size=7, width=5)
    np.testing.assert_allclose(
        tower.apply({"table": TABLE}, {}, (ids, mask))[0].vector, expected, rtol=1e-6
    )


def test_gradients_reach_the_words_that_occur():
    tower = bag_of_words.make_tower(vocab_size=7, width=5, dtype="bfloat16", projection=2)
    params, _ = tower.init(jax.random.key(0), (IDS, MASK))
    assert params["table"].shape == (7, 5)
    assert params["table"].dtype == np.float32

    def total(params):
        return tower.apply(params, {}, (IDS, MASK))[0].vector.sum()

    rows = np.abs(jax.grad(total)(params)["table"]).sum(1) > 0
    np.testing.assert_array_equal(np.flatnonzero(rows), [1, 3, 6])


def test_mistakes_are_noticed():
    tower = models.make_dual_encoder({"text": {"name": "bag_of_words", "vocab_size": 7}})
    with pytest.raises(ValueError, match=r"int text_ids .* got float32 \[3, 4\]"):
        tower.towers["text"].init(jax.random.key(0), (IDS.astype(np.float32), MASK))
    with pytest.raises(UserError, match="'mean', 'sum'"):
        bag_of_words.make_tower(vocab_size=7, pool="max")
    # Ids of another vocabulary do not become some other word.
    narrow = bag_of_words.make_tower(vocab_size=7, width=5)
    vector = narrow.apply({"table": TABLE}, {}, (IDS + 6, MASK))[0].vector
    assert np.isnan(vector[0]).all()
