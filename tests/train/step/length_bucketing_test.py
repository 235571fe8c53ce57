"""Texts of two lengths within a batch are embedded like texts of one length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.core import mesh as mesh_lib
from xmodal.data.data_config import LengthBucketing
from xmodal.models import make_dual_encoder
from xmodal.train.step import tasks
from xmodal.train.step.views import RANK, embed_views

SHORT = LengthBucketing(3, 0.6)
BERT = tiny.make_config().model.text.encoder.to_dict()
RNN = {"name": "rnn", "vocab_size": tiny.WORDS, "embedding_width": 4, "width": 6}
TOWERS = {
    "mean": (BERT, {"name": "mean"}),
    "all tokens": (BERT, {"name": "unit_tokens", "width": 5}),
    "stored features": (BERT | {"depth": 2, "lower_depth": 1}, {"name": "mean"}),
    "last token": (RNN, {"name": "lasttoken"}),
}


def make_batch(size, devices, parts):
    """A batch of `tiny.make_batch` with so many short texts that it has ranks, and these."""
    rng, batch, ranks = np.random.default_rng(0), tiny.make_batch(size=size), None
    while ranks is None:
        longest = np.where(rng.random((size, 2)) < 0.7, SHORT.length, tiny.TOKENS)
        lengths = rng.integers(1, longest + 1)
        ranks = SHORT.rank(lengths, devices, parts)
    mask = (np.arange(tiny.TOKENS) < lengths[..., None]).astype(np.int32)
    ids = rng.integers(1, tiny.WORDS, mask.shape, np.int32) * mask
    return batch | {"text_ids": ids, "text_mask": mask}, {RANK: ranks}


@pytest.mark.slow
@pytest.mark.parametrize(("tower", "rows"), [*((tower, 5) for tower in TOWERS), ("mean", 1)])
def test_embeddings_and_gradients_are_those_of_one_length(tower, rows):
    encoder, head = TOWERS[tower]
    model = make_dual_encoder({"text": {"encoder": encoder, "head": head}})
    compared = tasks.make_tasks(
        {"t2t": {"views": ("caption_0", "caption_1"), "loss": {"name": "softmax"}}}
    )
    mesh = mesh_lib.make_mesh(jax.devices()[:8], fsdp=4)
    batch, ranks = make_batch(8 * rows, devices=8, parts=1)
    batch = {name: batch[name] for name in ("text_ids", "text_mask")}
    params, state = model.init(
        jax.random.key(0), {"text": {name: column[:, 0] for name, column in batch.items()}}
    )

    if tower == "stored features":
        features = jax.vmap(
            lambda texts: model.towers["text"].frozen_features(params["text"], state["text"], texts)
        )(batch)
        batch = {"text_mask": batch["text_mask"]} | {
            name: np.asarray(column, np.float16) for name, column in features.items()
        }

    @jax.jit
    def embed(params, batch):
        def total(params):
            views, _ = embed_views(
                model, compared, params, state, batch, length_bucketing=SHORT, mesh=mesh
            )
            # Every number counts with another weight.
            leaves = [leaf for leaf in jax.tree.leaves(views) if leaf.dtype == jnp.float32]
            sums = [jnp.sum(leaf * jnp.cos(jnp.arange(leaf.size).reshape(leaf.shape)))
                    for leaf in leaves]  # fmt: skip
            return sum(sums), views

        return jax.value_and_grad(total, has_aux=True)(params)

    one, two = (
        tiny.copy(embed(params, mesh_lib.global_batch(columns, mesh)))
        for columns in (batch, batch | ranks)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, two)
