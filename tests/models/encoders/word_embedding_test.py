import jax
import numpy as np
import pytest

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(7, 5)).astype(np.float32)
IDS = np.int32([[1, 6, 6, 0], [3, 0, 0, 0], [0, 0, 0, 0]])
MASK = np.int32([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


INPUTS = {"text_ids": IDS, "text_mask": MASK}
PARAMS = {"encoder": {"table": TABLE}}


@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_adds_up_the_words_that_the_mask_keeps(pool, tower):
    made = tower("words", head={"name": pool}, vocab_size=7, width=5)
    embedding, state = jax.jit(made.apply)(PARAMS, {}, INPUTS)
    expected = np.stack([TABLE[1] + 2 * TABLE[6], TABLE[3], np.zeros(5)])
    expected[0] /= 3 if pool == "mean" else 1
    np.testing.assert_allclose(embedding.vector, expected, rtol=1e-6)
    assert state == {}


def test_equals_the_baseline_of_the_evaluation(tower):
    from xmodal.pretrained.bag_of_words import embed_texts
    from xmodal.pretrained.word_vectors import WordVectors

    words = {word: row for row, word in enumerate(["a", "dog", "cat", "on", "the", "Mat", "."])}
    texts = ["a dog on the Mat .", "unknown"]
    expected, _ = embed_texts(texts, WordVectors(words, TABLE))
    ids = np.int32([[0, 1, 3, 4, 5, 6], [0] * 6])
    mask = np.int32([[1] * 6, [0] * 6])
    made = tower("words", vocab_size=7, width=5)
    vector = jax.jit(made.apply)(PARAMS, {}, {"text_ids": ids, "text_mask": mask})[0].vector
    np.testing.assert_allclose(vector, expected, rtol=1e-6)
