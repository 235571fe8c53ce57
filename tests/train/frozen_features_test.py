"""Training on stored features of frozen encoders equals training without them."""

import pathlib

import jax
import numpy as np
import pytest

from tests.frozen_runs import (
    TOTAL_STEPS,
    changed,
    make_image_config,
    make_text_config,
    start_run,
)
from tests.tiny_run import train
from xmodal.models.encoders import efficientnet
from xmodal.train import frozen_features, loop
from xmodal.train.folder import run_folder

pytestmark = pytest.mark.usefixtures("quick_draws")


@pytest.fixture
def config(tiny_data_dir, tmp_path):
    return make_text_config(tiny_data_dir, tmp_path / "features")


@pytest.fixture
def image_config(request, tiny_data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:1])
    return make_image_config(request.param, tiny_data_dir, tmp_path / "features")


def folders(config):
    return sorted(pathlib.Path(config.frozen_features.folder).iterdir())


@pytest.mark.slow
def test_the_losses_are_those_without_stored_features(config, tmp_path):
    # Stored as bfloat16; a low temperature would amplify the rounding of a float32 encoder.
    config.model.text.encoder.update({"lower_depth": 0, "dtype": "bfloat16"})
    config.model.similarity.temperature = 0.05
    config.freeze = ["text/encoder/"]
    found = train(config, tmp_path / "stored")
    expected = train(changed(config, {"frozen_features.modalities": []}), tmp_path / "plain")
    assert list(found) == list(expected) == list(range(TOTAL_STEPS))
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=2e-4)
    # Evaluation reads them, too.
    splits = [each.name.split("-")[1] for each in folders(config)]
    assert splits == ["test", "train", "validation"]


@pytest.mark.slow
def test_the_features_are_those_of_the_tower(config):
    config.data.text.prompt = "a photo of {}"  # For evaluators.
    parts, state = start_run(config)
    readers = frozen_features.open_or_compute(parts, state)
    plain, stored = (loop.make_batches(parts, 0, given) for given in ((), readers))
    compute = jax.jit(parts.model.towers["text"].frozen_features)
    for _ in range(3):
        batch, found = next(plain), next(stored)
        assert found.keys() == batch.keys() - {"text_ids"} | {"text_features"}
        for index in np.ndindex(batch["caption_id"].shape):
            inputs = {name: batch[name][index][None] for name in ("text_ids", "text_mask")}
            params = state.all_params()["text"]
            (expected,) = compute(params, {}, inputs).values()
            real = batch["text_mask"][index] > 0
            features = found["text_features"][index].astype(np.float32)
            np.testing.assert_allclose(features[real], expected[0][real], rtol=2**-8, atol=1e-5)
            assert not features[~real].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image_config", "head"),
    [("pictures", "attention"), ("regions", "mean"), ("regions", "attention")],
    indirect=["image_config"],
)
def test_the_features_of_images_are_those_of_the_tower(image_config, head):
    image_config.model.image.head = {"name": head}
    parts, state = start_run(image_config)
    readers = frozen_features.open_or_compute(parts, state)
    batch, found = (next(loop.make_batches(parts, 0, given)) for given in ((), readers))
    assert found.keys() == batch.keys() - {"image"} | {"image_features"}
    np.testing.assert_array_equal(found["image_id"], batch["image_id"])
    params, statistics = state.all_params()["image"], state.model_state["image"]
    inputs = {name: batch[name] for name in ("image", "image_mask") if name in batch}
    compute = jax.jit(parts.model.towers["image"].frozen_features)
    (expected,) = compute(params, statistics, inputs).values()
    features = found["image_features"].astype(np.float32)
    if head == "mean":
        np.testing.assert_allclose(
            features.sum(axis=1), np.asarray(expected).sum(axis=1), rtol=1e-6, atol=1e-6
        )
        return
    assert features.shape == expected.shape
    real = batch.get("image_mask", np.ones(expected.shape[:2], bool))
    assert real.all() == (image_config.data.config != "regions")
    np.testing.assert_allclose(features[real], expected[real], rtol=2**-7, atol=1e-3)
    assert not features[~real].any()
    np.testing.assert_array_equal(found.get("image_mask", real), real)


@pytest.mark.slow
@pytest.mark.usefixtures("without_evaluation")
def test_a_continued_run_reads_the_same_features(config, tmp_path, monkeypatch):
    whole = train(config, tmp_path / "whole")
    config.checkpoint.every = 5
    make_batches = loop.make_batches

    def dying(parts, first_step, features):
        for step, batch in enumerate(make_batches(parts, first_step, features), first_step):
            if step == 6:
                raise KeyboardInterrupt
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(loop, "make_batches", dying)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config, str(tmp_path / "run"))
    assert run_folder.steps(str(tmp_path / "run")) == [0, 5]
    rest = train(config, tmp_path / "run")
    assert rest == {step: whole[step] for step in range(5, TOTAL_STEPS)}
    assert len(folders(config)) == 1
