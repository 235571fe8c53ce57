"""A dual encoder that compiles in a second, and batches for it."""

import dataclasses

import jax
import numpy as np

from configs import common
from xmodal import mesh as mesh_lib
from xmodal.training import preflight, state, step

FEATURES, TOKENS, WORDS = 5, 6, 20
REPLICATED = [[".*", "replicated"]]


def make_config(**changes):
    """Multitask over precomputed features and a one-layer BERT; plain SGD at rate 1."""
    config = common.quick(common.experiment("tiny"))
    config.batch_size, config.total_steps = 16, 10
    config.model.image = {"name": "precomputed", "features": FEATURES, "projection": 8}
    config.model.text = {
        "name": "bert", "vocab_size": WORDS, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12,
        "max_positions": TOKENS, "projection": 8,
    }  # fmt: skip
    config.data.image = {"size": 0}
    config.data.captions_per_image, config.data.text.max_length = 2, TOKENS
    config.tasks = {"i2t": common.image_text(0.7), "t2t": common.text_text(0.4)}
    config.optimizer = {
        "name": "sgd",
        "options": {},
        "learning_rate": 1.0,
        "schedule": {"name": "constant"},
        "clip_norm": None,
        "skip_outliers": None,
    }
    config.freeze, config.l2 = [], None
    for key, value in changes.items():
        config[key] = value
    return config


def make_image_config(**changes):
    """Features against themselves: the fastest step to compile."""
    task = {"left": "image", "right": "image", "loss": "softmax", "weight": 1.0}
    config = make_config(tasks={"same": task}, **changes)
    config.model.text = None
    return config


def make_parts(config, devices=8):
    return preflight.build(config, mesh_lib.make_mesh(jax.devices()[:devices]))


def start(parts, seed=0):
    """A state of step 0 with random parameters; `create_state` would compile for seconds."""
    rng = np.random.default_rng(seed)
    shapes = state.abstract_state(preflight.state_init(parts), parts.mesh, REPLICATED)

    def put(value, leaf):
        return jax.device_put(value.astype(leaf.dtype), leaf.sharding)

    def draw(leaf):
        return put(rng.normal(scale=0.5, size=leaf.shape), leaf)

    zeros = jax.tree.map(lambda leaf: put(np.zeros(leaf.shape), leaf), shapes)
    params, frozen = jax.tree.map(draw, (shapes.params, shapes.frozen))
    return dataclasses.replace(zeros, params=params, frozen=frozen)


def compile_step(parts, state, **options):
    """As `loop.compile_step`, with options of `make_step`."""
    function = step.make_step(
        parts.model, parts.tasks, parts.optimizer, parts.schedule, seed=0, **options
    )
    batch = preflight.abstract_batch(parts)
    number = jax.ShapeDtypeStruct((), np.int32, sharding=mesh_lib.replicated(parts.mesh))
    lowered = step.jit_step(function, state, parts.mesh).lower(state, batch, number)
    return lowered.compile()


def run_step(parts, compiled, state, batch, number):
    """Dispatches one step as the loop does; the batch may hold more than the model reads."""
    batch = {name: batch[name] for name in preflight.abstract_batch(parts)}
    batch = mesh_lib.global_batch(batch, parts.mesh)
    return compiled(state, batch, mesh_lib.put_step(number, parts.mesh))


def make_batch(seed=0, size=16):
    """A batch as `data.train_batches` yields it; some images come twice."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, TOKENS + 1, size=(size, 2))
    mask = (np.arange(TOKENS) < lengths[..., None]).astype(np.int32)
    return {
        "image": rng.normal(size=(size, FEATURES)).astype(np.float16),
        "text_ids": rng.integers(1, WORDS, size=mask.shape).astype(np.int32) * mask,
        "text_mask": mask,
        "image_id": rng.integers(100, 100 + size, size=size).astype(np.int32),
        "caption_id": np.arange(2 * size, dtype=np.int32).reshape(size, 2),
    }


def copy(tree):
    """The arrays on the host; a donated state is gone afterwards."""
    return jax.tree.map(np.array, tree)


def assert_identical(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)
