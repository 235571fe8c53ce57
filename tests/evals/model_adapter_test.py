"""A model as evaluators see it embeds its own items and any others."""

import jax
import numpy as np
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES
from tests.evals.tiny_split import TinySplit, look_up
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.evals import Embedder
from xmodal.evals.model_adapter import EncoderAdapter, Ensemble
from xmodal.similarity import make_similarity


class GivenTexts:
    """Texts "0", "1", ... as items; token 0 is their number, see `look_up`."""

    name = title = "given"
    split, modalities = "items", ("text",)

    def __init__(self, texts):
        self.caption_ids = np.arange(len(texts))
        self.caption_lengths = np.ones(len(texts), int)
        self._tokens = np.array([[int(text)] for text in texts])

    def captions(self, batch_size, rows, length):
        for start in range(0, len(rows), batch_size):
            at = rows[start : start + batch_size]
            yield {"text_ids": self._tokens[at], "caption_id": self.caption_ids[at]}


def test_a_model_embeds_any_texts_on_any_number_of_devices():
    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    params = {"image": table[:4], "text": table}
    dot, found = make_similarity({"name": "dot"}), []
    for devices in (1, 8):
        mesh = mesh_lib.make_mesh(jax.devices()[:devices])
        embedder = Embedder(look_up, MODALITIES, similarity=dot, mesh=mesh)
        adapter = EncoderAdapter(
            "m", embedder, (params, {}), field="vector", given={"text": GivenTexts}
        )
        found.append(adapter.embed("text", ["7", "3", "3", "0", "5"]))
        split = TinySplit()
        assert adapter.items(split) is adapter.items(split)  # Embedded once.
        assert adapter.items(TinySplit()) is not adapter.items(split)
        with pytest.raises(UserError, match="m has no image tower to embed"):
            adapter.embed("image", [b"picture"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], table[[7, 3, 3, 0, 5]], rtol=1e-2)
    # Two copies of a model are the model, also for other texts.
    both = Ensemble([(adapter, lambda items: items)] * 2)
    texts = both.embed("text", ["7", "3"])
    np.testing.assert_allclose(texts @ texts.T, found[0][:2] @ found[0][:2].T, rtol=1e-5)
    one, two = adapter.items(split), both.items(split)
    np.testing.assert_allclose(
        two.images @ two.captions.T, one.images @ one.captions.T, rtol=1e-5, atol=1e-6
    )
