"""A batch embedded in parts gives the gradient of the whole batch."""

import dataclasses

import jax
import numpy as np
import pytest

from configs import base, cxc
from tests import tiny_encoder as tiny
from xmodal.train.step import step
from xmodal.train.tree import RULES

REGIONS = 3


def make_config(tasks, similarity, **changes):
    config = tiny.make_config(tasks=tasks, batch_size=24, **changes)
    config.model.similarity = similarity
    # Adam would amplify the rounding of a gradient that is almost 0.
    sgd = {"name": "sgd", "options": {"momentum": 0.9}}
    config.optimizer = cxc.skipping_adam(0.1) | sgd
    return config


def softmax():
    """A frozen encoder, a learned temperature, and the ring engine."""
    tasks = {"i2t": cxc.image_text(0.7), "t2t": cxc.text_text(0.4)}
    tasks["i2t"]["loss"]["options"] |= {"engine": "ring", "chunk_size": 2}
    learned = {"name": "cosine", "temperature": 0.2, "learned_temperature": True}
    config = make_config(tasks, learned, freeze=["image/encoder/"])
    config.model.image.encoder.hidden = (7,)
    return config


def hinge():
    """A loss with parameters that reads an image's regions after the head, and their mask; a
    cross-encoder on the features of both towers, and drawn negatives.
    """
    generation = base.task("image", "caption_1", "caption_generation", negatives="none")
    generation["loss"]["inputs"] = ["text_ids", "text_mask"]
    generation["loss"]["module"] = {"vocab_size": tiny.WORDS, "width": 6, "word_width": 5}
    hardest = base.task("image", "caption_0", "triplet", engine="chunked", chunk_size=5)
    tasks = {"i2t": hardest, "generation": generation}
    tasks["match"] = base.task("image", "caption_0", "matching")
    # Gradients that cancel, such as those of biases of keys, are rounding.
    config = make_config(tasks, {"name": "cosine", "temperature": 0.2})
    config.model.image.encoder.features = (REGIONS, tiny.FEATURES)
    # The layers between the regions normalize over the batch.
    config.model.image.head = {"name": "graph", "width": 8, "layers": 0}
    config.model.text.encoder = {"name": "words", "vocab_size": tiny.WORDS, "width": 8}
    config.model.text.head = {"name": "gpo", "width": 8, "drop": 0.0, "hidden": 3}
    config.model.image.projection = config.model.text.projection = None
    config.model.cross_encoder = {
        "name": "matching_head", "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12,
        "dropout": 0.0,
    }  # fmt: skip
    return config


WHOLE = {each.__name__: each for each in (softmax, hinge)}
L2 = step.L2Config(".*kernel", 1e-3)


def make_batch(config, seed=0):
    batch = tiny.make_batch(seed, config.batch_size)
    if config.model.image is not None and config.model.image.encoder.features != tiny.FEATURES:
        rng = np.random.default_rng(seed)
        shape = (config.batch_size, *config.model.image.encoder.features)
        batch["image"] = rng.normal(size=shape).astype(np.float16)
        batch["image_mask"] = np.arange(REGIONS) < rng.integers(1, REGIONS + 1, (len(shape), 1))[0]
        batch["image_mask"] = np.broadcast_to(batch["image_mask"], shape[:2]).copy()
    return batch


def make_parts(config, devices):
    parts = tiny.make_parts(config, devices)
    read = [*parts.batch, "image_mask"]
    batch = {name: column for name, column in make_batch(config).items() if name in read}
    shapes = {name: jax.ShapeDtypeStruct(c.shape, c.dtype) for name, c in batch.items()}
    return dataclasses.replace(parts, batch=shapes)


class Training:
    """A compiled step and its state."""

    def __init__(self, config, devices, steps):
        self.config, self.parts = config, make_parts(config, devices)
        self.state, self.number = tiny.start(self.parts), 0
        self.compiled = tiny.compile_step(self.parts, self.state, l2=L2, accumulation_steps=steps)

    def step(self):
        """Another step; returns parameters, momentum (at first the gradient) and scalars."""
        batch = make_batch(self.config, self.number)
        self.state, scalars = tiny.run_step(
            self.parts, self.compiled, self.state, batch, self.number
        )
        self.number += 1
        return tiny.copy((self.state.params, self.state.opt_state["moments"], scalars))

    def take_over(self, other):
        """Continues from the state of another training."""
        layout = jax.tree.map(lambda leaf: leaf.sharding, self.state)
        self.state, self.number = jax.device_put(tiny.copy(other.state), layout), other.number


def assert_close(found, expected, tolerance):
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected))
    assert largest > 0

    def compare(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=tolerance * largest)

    jax.tree.map(compare, found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_training_is_that_of_the_whole_batch(name, monkeypatch):
    config = WHOLE[name]()
    whole = Training(config, 1, 1)
    # Every array divisible by 8, however small.
    monkeypatch.setitem(RULES, "fsdp", tiny.shard_first_dimension)
    config.sharding = [(".*", "fsdp")]
    parts = Training(config, 8, 3)
    sharded = [not leaf.is_fully_replicated for leaf in jax.tree.leaves(parts.state)]
    assert 3 < sum(sharded) < len(sharded)
    assert_same_training(parts, whole)
    # On another number of devices, and without parts.
    whole.take_over(parts)
    assert int(whole.state.step) == 3
    assert_close(parts.step()[0], whole.step()[0], 1e-5)


def assert_same_training(one, other):
    for number in range(3):
        found, expected = one.step(), other.step()
        if number == 0:
            assert_close(found[1], expected[1], 1e-5)
        assert_close(found[0], expected[0], 1e-5)
        assert set(found[2]) == set(expected[2])
        for scalar, value in expected[2].items():
            np.testing.assert_allclose(found[2][scalar], value, rtol=1e-4, err_msg=scalar)


def image_config(**changes):
    """Three layers of features, compared in blocks."""
    config = tiny.make_image_config(**changes)
    config.model.image.encoder.hidden = (32,) * 10
    config.tasks.same.loss.options = {"engine": "chunked", "chunk_size": 64}
    return config


def test_one_part_is_in_memory_at_a_time():
    config = image_config(batch_size=4096)
    config.tasks.same.loss.options.chunk_size = 256  # A few states per item and tile are kept.
    whole, parts = (
        Training(config, 1, steps).compiled.memory_analysis().temp_size_in_bytes
        for steps in (1, 16)
    )
    assert parts < whole / 2
