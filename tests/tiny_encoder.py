"""A dual encoder that compiles in a second, and batches for it."""

import dataclasses
import functools

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from configs import base, cxc
from xmodal.core import mesh as mesh_lib
from xmodal.evals import read_options
from xmodal.models import make_dual_encoder
from xmodal.train import rngs
from xmodal.train.run import Run
from xmodal.train.run_config import read_settings
from xmodal.train.step import step, tasks

FEATURES, TOKENS, WORDS = 5, 6, 20
# Shapes of parameters and statistics, by the model, the tasks and the batch that determine them.
SHAPES: dict[str, tuple] = {}
REPLICATED = ((".*", "replicated"),)


def make_config(**changes):
    """Multitask over precomputed features and a one-layer BERT; plain SGD at rate 1."""
    config = base.base("tiny")
    config.batch_size, config.total_steps = 16, 10
    config.model.image = {
        "encoder": {"name": "precomputed", "features": FEATURES},
        "head": {"name": "mean"},
        "projection": {"width": 8},
    }
    config.model.text = {
        "encoder": {
            "name": "bert", "vocab_size": WORDS, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12,
            "max_positions": TOKENS,
        },
        "head": {"name": "cls"},
        "projection": {"width": 8},
    }  # fmt: skip
    config.model.similarity = {"name": "dot"}
    config.data.image.size = 0
    config.data.captions_per_image, config.data.text.max_length = 2, TOKENS
    config.tasks = {"i2t": cxc.image_text(0.7), "t2t": cxc.text_text(0.4)}
    config.optimizer = base.adam(1.0)
    config.optimizer.update({"name": "sgd"})
    config.evals = {"shapes": base.benchmarks(every=5)}
    config.best_checkpoint.metric = "shapes/mean_recall@10"
    for key, value in changes.items():
        config[key] = value
    return config


def make_image_config(**changes):
    """Features against themselves, which compile fastest."""
    config = make_config(tasks={"same": base.task("image", "image", "softmax")}, **changes)
    config.model.text = config.data.text = None
    return config


def batch_spec(config):
    """The columns of `make_batch` that the model of a config reads."""
    batch = make_batch(size=config.batch_size)
    modalities = {"image": ("image",), "text": ("text_ids", "text_mask", "caption_id")}
    read = ["image_id"]
    for modality, columns in modalities.items():
        read += columns if config.model[modality] is not None else ()
    return {name: jax.ShapeDtypeStruct(batch[name].shape, batch[name].dtype) for name in read}


class TracedOnce(Run):
    """Run whose towers are not traced again if another test traced the same ones."""

    @functools.cached_property
    def shapes(self):
        config = self.config.to_dict()
        text = f"{config['model']} {config['tasks']} {sorted(self.batch.items())}"
        if text not in SHAPES:
            SHAPES[text] = jax.eval_shape(self.init_params, self.key_data)
        return SHAPES[text]


def make_parts(config, devices=8, **shapes):
    """The parts of a run, without a dataset; `shapes` of one item replace those of columns."""
    settings = read_settings(config)
    mesh = settings.mesh.make(jax.devices()[:devices])
    columns = batch_spec(config)
    for name, shape in shapes.items():
        columns[name] = jax.ShapeDtypeStruct((config.batch_size, *shape), np.uint8)
    return TracedOnce(
        settings,
        read_options(settings.evals),
        mesh,
        make_dual_encoder(settings.model),
        tasks.make_tasks(settings.tasks),
        columns,
    )


def shard_first_dimension(mesh, shape):
    """The rule "fsdp" for arrays that are too small for it."""
    last = mesh.axis_names[-1]
    if not shape or shape[0] % mesh.shape[last]:
        return mesh_lib.replicated(mesh)
    return NamedSharding(mesh, PartitionSpec(last))


def start(parts, seed=0):
    """A state of step 0 with random parameters; `create_state` would compile for seconds."""
    rng = np.random.default_rng(seed)
    shapes = parts.state_shapes

    def put(value, leaf):
        return jax.device_put(value.astype(leaf.dtype), leaf.sharding)

    def draw(leaf):
        return put(rng.normal(scale=0.5, size=leaf.shape), leaf)

    zeros = jax.tree.map(lambda leaf: put(np.zeros(leaf.shape), leaf), shapes)
    params, frozen = jax.tree.map(draw, (shapes.params, shapes.frozen))
    # The optimizer's own initial state, whose scalars are not all zero.
    fresh = parts.optimizer.init(params)
    opt_state = jax.tree.map(
        lambda leaf, shape: put(np.asarray(leaf), shape), fresh, shapes.opt_state
    )
    return dataclasses.replace(zeros, params=params, frozen=frozen, opt_state=opt_state)


def compile_step(parts, first, **options):
    """Like `compiled_step.compile_step`, with options of `make_step`."""
    function = step.make_step(parts.model, parts.tasks, parts.optimizer, mesh=parts.mesh, **options)
    function = functools.partial(function, key_data=rngs.key_data(0))
    sharding = mesh_lib.batch_sharded(parts.mesh)
    batch = {
        name: jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=sharding)
        for name, spec in parts.batch.items()
    }
    number = jax.ShapeDtypeStruct((), np.int32, sharding=mesh_lib.replicated(parts.mesh))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, first), mesh_lib.replicated(parts.mesh)
    jitted = jax.jit(function, donate_argnums=0, out_shardings=shardings)
    return jitted.lower(first, batch, number).compile()


def run_step(parts, compiled, first, batch, number):
    """Dispatches one step like the loop; the batch may contain more than the model reads."""
    batch = mesh_lib.global_batch({name: batch[name] for name in parts.batch}, parts.mesh)
    step = mesh_lib.put(np.int32(number), mesh_lib.replicated(parts.mesh))
    return compiled(first, batch, step)


def make_batch(seed=0, size=16):
    """A batch as from `data.train_batches`; some images occur twice."""
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
    """Copies arrays to the host, since a donated state is deleted."""
    return jax.tree.map(np.array, tree)


def assert_identical(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def make_config_with_towers(text="", image="", **changes):
    """The config with folders of towers; `changes` are for its text encoder."""
    config = make_config()
    config.model.text.encoder.depth = 3
    config.model.text.encoder.update(changes)
    config.init_from.towers.text, config.init_from.towers.image = text, image
    return config
