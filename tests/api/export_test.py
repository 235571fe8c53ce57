"""Bundles embed like their models, are self-contained, and are rejected after changes."""

import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from converted_models import MODELS, save_converted
from tiny_dual_encoder import CROSS_ENCODER, SECTION, make_texts, save_run

import xmodal
from tests import short_runs
from xmodal.api.exporting import export_model
from xmodal.models.encoders import efficientnet

ALONE = """
import sys, numpy as np

sys.modules.update(dict.fromkeys({blocked}))
import xmodal
model = xmodal.load({bundle!r})
inputs = np.load({inputs!r})
texts, images = model.embed_texts(inputs["texts"].tolist()), model.embed_images(inputs["images"])
found = dict(texts=texts, images=images, similarity=model.similarity(images, texts))
for key in ("texts", "images"):
    if (sigma := getattr(found[key], "log_sigma", None)) is not None:
        found[key + "_sigma"] = sigma
index = xmodal.Index.build(model, images=list(inputs["images"]))
index.save({outputs!r} + ".index")
index = xmodal.Index.open({outputs!r} + ".index", model=model)
for number, text in enumerate(inputs["texts"].tolist()):
    found[f"hits_{{number}}"] = [hit.row for hit in index.query(text, top=5)]
np.savez({outputs!r}, **found)
"""
TRAINING = ["flax", "optax", "orbax", "tensorflow", "tensorflow_datasets", "tensorflow_text",
            "h5py", "matplotlib", "ml_collections", "xmodal.models"]  # fmt: skip


def make_images(model_name, count=5):
    rng = np.random.default_rng(1)
    if model_name == "pixels":
        return rng.integers(0, 256, (count, 40, 37, 3)).astype(np.uint8)
    return rng.normal(size=(count, 3, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of a run, and the run."""
    folder = tmp_path_factory.mktemp("bundles")
    run = save_run(str(folder / "run"))
    export_model(run, folder / "bundle")
    return folder / "bundle", run


def test_a_run_and_its_bundle_agree(bundle):
    folder, run = bundle
    model, alone = xmodal.load(run), xmodal.load(folder)
    assert (alone.modalities, alone.similarity_name) == (model.modalities, model.similarity_name)
    texts, features = make_texts(40), np.random.default_rng(1).normal(size=(9, 5))
    for size in (1, 16):
        np.testing.assert_allclose(
            alone.embed_texts(texts, batch_size=size), model.embed_texts(texts), atol=1e-5
        )
        np.testing.assert_allclose(
            alone.embed_images(features, batch_size=size), model.embed_images(features), atol=1e-5
        )
    for one, other in zip(alone.tokenize(texts), model.tokenize(texts), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_bundle_embeds_without_the_libraries_of_training(name, tmp_path, monkeypatch):
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:1])
    source = save_converted(tmp_path / "model", MODELS[name])
    export_model(source, tmp_path / "bundle", platforms=["cpu"])
    texts, images = ["a red star", "the circle above the red star", "a"], make_images(name)
    np.savez(tmp_path / "inputs.npz", texts=texts, images=images)
    paths = {"inputs": str(tmp_path / "inputs.npz"), "outputs": str(tmp_path / "outputs.npz")}
    code = ALONE.format(blocked=TRAINING, bundle=str(tmp_path / "bundle"), **paths)
    one_device = os.environ | short_runs.variables(devices=1)
    subprocess.run([sys.executable, "-c", code], check=True, env=one_device)
    with np.load(tmp_path / "outputs.npz") as found:
        model = xmodal.load(source)
        expected = {"texts": model.embed_texts(texts), "images": model.embed_images(images)}
        expected["similarity"] = model.similarity(expected["images"], expected["texts"])
        kind = np.ndarray if name == "pixels" else xmodal.ItemEmbeddings
        assert isinstance(expected["texts"], kind)
        if name == "pcme":
            for key in ("texts", "images"):
                sigma = expected[key].log_sigma
                assert sigma.shape == expected[key].vector[:, 0].shape
                np.testing.assert_allclose(found[f"{key}_sigma"], sigma, rtol=1e-5, atol=1e-5)
        for number, scores in enumerate(expected["similarity"].T):
            hits = found[f"hits_{number}"]
            assert sorted(hits) == list(range(5))
            assert (np.diff(scores[hits]) < 1e-5).all()
        for key, values in expected.items():
            assert np.ptp(values) > 0
            np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-5)


def change_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change_card(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        ("image", change_byte, "image is damaged or truncated: copy the bundle again"),
        ("bundle.json", lambda path: change_card(path, version=3), "version': 3.*version': 2"),
    ],
)
def test_a_bundle_that_changed_is_refused_before_it_is_read(
    name, harm, message, bundle, tmp_path, monkeypatch
):
    def read(content):
        raise AssertionError("a function was deserialized")

    monkeypatch.setattr(jax.export, "deserialize", read)
    shutil.copytree(bundle[0], tmp_path / "copy")
    harm(tmp_path / "copy" / name)
    with pytest.raises(xmodal.UserError, match=message):
        xmodal.load(tmp_path / "copy")


def test_embeddings_of_a_model_with_a_cross_encoder(tmp_path):
    section = SECTION | {"cross_encoder": CROSS_ENCODER}
    run = save_run(str(tmp_path / "run"), section=section)
    with pytest.raises(xmodal.UserError, match="cannot carry: export its embeddings without it"):
        export_model(run, tmp_path / "other")
    export_model(run, tmp_path / "bundle", embeddings_only=True)
    bundle, texts = xmodal.load(tmp_path / "bundle"), make_texts(3)
    assert bundle.pairs is None
    expected = xmodal.load(run).embed_texts(texts)
    np.testing.assert_allclose(bundle.embed_texts(texts), expected, rtol=1e-5, atol=1e-5)
