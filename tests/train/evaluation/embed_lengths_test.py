"""Embeddings do not depend on whether a batch is padded to its own or the longest length."""

import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.evals import Embedder

LONGEST, CAPTIONS = 24, 150


class Captions:
    """Captions of 1 to 24 tokens; the lengths of batches are recorded."""

    name = title = "random"
    split, modalities, image_ids = "test", ("text",), np.zeros(0, np.int32)

    def __init__(self, steps):
        rng = np.random.default_rng(0)
        lengths = np.minimum(rng.geometric(0.1, CAPTIONS), LONGEST)
        self.mask = (np.arange(LONGEST) < lengths[:, None]).astype(np.int32)
        self.tokens = rng.integers(1, tiny.WORDS, self.mask.shape).astype(np.int32) * self.mask
        self.caption_ids = rng.permutation(CAPTIONS).astype(np.int32)
        self.caption_lengths = np.array(steps)[np.searchsorted(steps, lengths)]
        self.batches = []

    def captions(self, batch_size, rows, length):
        for start in range(0, len(rows), batch_size):
            at = rows[start : start + batch_size]
            assert not self.mask[at, length:].any()
            self.batches.append(length)
            yield {
                "text_ids": self.tokens[at, :length],
                "text_mask": self.mask[at, :length],
                "caption_id": self.caption_ids[at],
            }


ENCODERS = {
    "bert": ({"max_positions": LONGEST}, "cls"),
    "rnn": ({"width": 6, "bidirectional": True, "embedding_width": 5}, "lasttoken"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "devices"), [("bert", 8), ("rnn", 1)])
def test_padding_changes_nothing(name, devices):
    keywords, head = ENCODERS[name]
    config = tiny.make_config()
    config.model.image = config.data.image = None
    del config.tasks.i2t
    given = {"name": name, "vocab_size": tiny.WORDS, **keywords}
    if name == "bert":
        given = config.model.text.encoder.to_dict() | given
    config.model.text = {"encoder": given, "head": {"name": head}, "projection": {"width": 8}}
    parts = tiny.make_parts(config, devices=devices)
    state = tiny.start(parts)
    traced = []

    def embed(modality, params, model_state, columns):
        traced.append(columns["text_ids"].shape)
        return parts.model.embed(modality, params, model_state, columns)[0]

    embedder = Embedder(embed, ("text",), similarity=parts.model.similarity, mesh=parts.mesh)
    by_length, padded = Captions([8, 16, 24]), Captions([24])
    found, expected = (
        embedder(state.all_params(), state.model_state, split, 16) for split in (by_length, padded)
    )
    assert padded.batches == [24] * 10
    assert by_length.batches == sorted(by_length.batches)
    assert len(by_length.batches) == 10
    assert by_length.batches.count(8) > 3
    assert sorted(traced) == [(16, 8), (16, 16), (16, 24)]  # one compilation each
    np.testing.assert_array_equal(found.caption_ids, expected.caption_ids)
    scale = np.abs(expected.captions).max()
    np.testing.assert_allclose(found.captions, expected.captions, rtol=0, atol=2e-6 * scale)
