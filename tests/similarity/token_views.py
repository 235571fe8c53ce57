"""Small embeddings with tokens."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.similarity import Embedding, make_similarity


def make_view(size, tokens, width=6, seed=0, ragged=True):
    """Unit tokens, the first 1 to `tokens` of each item real, and NaN in the padding."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, tokens + 1, size) if ragged else np.full(size, tokens)
    lengths[0] = tokens
    values = rng.normal(size=(size, tokens, width))
    values /= np.linalg.norm(values, axis=-1, keepdims=True)
    mask = np.arange(tokens) < lengths[:, None]
    values = np.where(mask[..., None], values, np.nan).astype(np.float32)
    vector = rng.normal(size=(size, width))
    vector /= np.linalg.norm(vector, axis=-1, keepdims=True)
    return Embedding(vector.astype(np.float32), extras={"tokens": values, "mask": mask})


def make_views(sizes=(5, 7), regions=4, words=6, width=6, seed=0):
    """Images with all their regions, and texts of several lengths, one of them a single word."""
    images = make_view(sizes[0], regions, width, seed, ragged=False)
    return images, make_view(sizes[1], words, width, seed + 1)


@functools.cache
def _init(similarity, width, seed=0):
    """The first parameters, which depend on the width of the views alone."""
    views = make_views((1, 1), width=width)
    return jax.tree.map(np.asarray, jax.jit(similarity.init)(jax.random.key(seed), *views))


def make_params(similarity, views, seed=0):
    """Parameters whose gates and scores differ visibly."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: x + np.float32(0.5) * rng.normal(size=x.shape).astype(np.float32),
        _init(similarity, views[0].vector.shape[-1], seed),
    )


def compare_cost(section):
    """Operations and memory of the compiled program as shares of `cost`."""
    similarity = make_similarity(section)
    views = [make_view(16, 36, 256), make_view(16, 12, 256, seed=1)]
    params = _init(similarity, 256)
    sides = [jax.jit(similarity.prepare)(view, params) for view in views]

    def loss(left, right, params):
        return jnp.sum(similarity.logits(left, right, params))

    cost, pairs = similarity.cost(*sides), 16 * 16
    score = jax.jit(similarity.score).lower(*sides, params).compile()
    backward = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(*sides, params).compile()
    flops = score.cost_analysis()["flops"] / (pairs * cost.flops)
    memory = backward.memory_analysis().temp_size_in_bytes / (pairs * cost.bytes)
    return flops, memory
