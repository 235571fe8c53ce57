"""Mined negatives: against a slow search, after a kill, on one device as on eight."""

import dataclasses
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal import data
from xmodal.api import loading
from xmodal.api.model import Model
from xmodal.apps import mine, negative_tables
from xmodal.core import mesh as mesh_lib
from xmodal.data.pixels.images import ImageConfig
from xmodal.similarity import make_similarity

SECTION = {"dataset": "crisscrossed_shapes", "config": "images"}
TOP = {"captions": 20, "images": 7}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Vectors:
    """The fields of an embedding that a model reads."""

    vector: jax.Array
    log_sigma: None = None
    extras: dict = dataclasses.field(default_factory=dict)


class Linear:
    """Towers of a matrix each: of mean pixels in a grid, and of counted ids."""

    towers = ("image", "text")
    similarity = make_similarity({"name": "cosine"})

    def embed(self, modality, params, state, inputs):
        if modality == "image":
            x = inputs["image"].reshape(len(inputs["image"]), -1) / 255.0
        else:
            x = jnp.sum(jax.nn.one_hot(inputs["text_ids"], 400) * inputs["text_mask"][..., None], 1)
        return Vectors(x @ params[modality]["kernel"]), state


@pytest.fixture(scope="module")
def model(few_shapes):
    text = {"vocabulary_size": 300, "max_length": 16}
    config = SECTION | {"data_dir": few_shapes, "text": text, "image": {"size": 8}}
    rng = np.random.default_rng(0)
    sizes = {"image": 8 * 8 * 3, "text": 400}
    params = {
        modality: {"kernel": jnp.asarray(rng.normal(size=(size, 12)), jnp.float32)}
        for modality, size in sizes.items()
    }
    return Model(
        "linear", Linear(), params, {}, mesh=mesh_lib.make_mesh(jax.devices()[:1]),
        images=ImageConfig(size=8), tokenizer=data.load_tokenizer(data.parse(config), "train"),
    )  # fmt: skip


@pytest.fixture
def run(model, few_shapes, monkeypatch, tmp_path):
    """Runs the command into a folder of this name; returns its tables."""
    monkeypatch.setattr(loading, "load", lambda *_, **__: model)

    def call(name, *more):
        output = tmp_path / name
        flags = SECTION | TOP | {"model": "linear", "data_dir": few_shapes, "output": output}
        arguments = [f"--{key}={value}" for key, value in flags.items()]
        monkeypatch.setattr(sys, "argv", ["mine", *arguments, *more])
        mine.main()
        return {kind: np.load(output / f"{kind}.npy") for kind in TOP}

    return call


def open_split(few_shapes, split):
    config = SECTION | {"data_dir": few_shapes, "text": {}, "image": {"size": 8}}
    return data.eval_split(config, split=split)


@pytest.mark.slow
def test_the_tables_are_those_of_a_slow_search(run, model, few_shapes, tmp_path):
    tables, split = run("mined"), open_split(few_shapes, "train")
    pictures = split.pictures(np.arange(len(split.image_ids)))
    images = model.embed_images(list(pictures), upright=False).astype(np.float64)
    captions = model.embed_texts(split.caption_texts).astype(np.float64)
    images, captions = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, captions))
    scores = images @ captions.T
    own = split.caption_rows == np.arange(len(images))[:, None]
    scores[own] = -np.inf
    for kind, matrix in (("captions", scores), ("images", scores.T)):
        assert tables[kind].shape == (len(matrix), TOP[kind])
        assert tables[kind].dtype == np.int32
        for row, found in zip(matrix, tables[kind], strict=True):
            assert len(set(found)) == len(found)
            # Captions of equal words tie.
            np.testing.assert_allclose(row[found], np.sort(row)[::-1][: TOP[kind]], atol=1e-6)
    card = json.loads((tmp_path / "mined/mined.json").read_text())
    assert card["records"] == split.hashes
    assert not (tmp_path / "mined.parts").exists()


@pytest.mark.parametrize(("block_size", "first"), [(64, 64), (128, 0)])
def test_a_killed_command_repeats_one_block_on_any_number_of_devices(
    block_size, first, run, monkeypatch, tmp_path
):
    whole = run("whole", "--block_size=64")
    find, calls = negative_tables.find_negatives, []

    def until_killed(*arguments):
        calls.append(arguments[1][0])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return find(*arguments)

    one = mesh_lib.make_mesh(jax.devices()[:1])
    monkeypatch.setattr(negative_tables, "make_mesh", lambda devices: one)
    monkeypatch.setattr(negative_tables, "find_negatives", until_killed)
    with pytest.raises(SystemExit, match="130"):
        run("killed", "--block_size=64")
    assert not (tmp_path / "killed").exists()
    calls.clear()
    calls += ["finished"] * 2
    resumed = run("killed", f"--block_size={block_size}")
    assert calls[2] == first  # Block 0 of the captions was kept, if the blocks are the same.
    for kind in TOP:
        np.testing.assert_array_equal(resumed[kind], whole[kind])


def test_positives_of_released_labels_are_left_out(run, few_shapes):
    split = open_split(few_shapes, "test")
    few = ("--split=test", "--captions=6", "--images=3")
    matches = {
        name: set(zip(*pairs, strict=True)) for name, pairs in split.lists["matches"].items()
    }
    ids = {"captions": (split.image_ids, split.caption_ids, "i2t")}
    ids["images"] = (split.caption_ids, split.image_ids, "t2i")

    def count(tables):
        """Mined items that match their queries, by table."""
        counts = []
        for kind, (queries, items, name) in ids.items():
            pairs = [(queries[row], items[n]) for row, ns in enumerate(tables[kind]) for n in ns]
            counts.append(len(matches[name].intersection(pairs)))
        return counts

    assert min(count(run("all", *few))) > 0
    assert count(run("filtered", *few, "--exclude=shapes_matches")) == [0, 0]
