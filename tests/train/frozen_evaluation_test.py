"""Evaluation on stored features of frozen encoders equals evaluation of the whole towers."""

import pathlib
import sys

import numpy as np
import pytest

from tests.frozen_runs import TINY, make_image_config, make_text_config, start_run
from xmodal import data
from xmodal.train.evaluation.run_evaluation import RunEvaluation

pytestmark = pytest.mark.usefixtures("quick_draws")


def make_config(modality, data_dir, folder):
    """All captions of any length, or images of one to five regions, and heads that pool them."""
    if modality == "image":
        return make_image_config("regions", data_dir, folder)
    config = make_text_config(data_dir, folder)
    config.model.text.encoder.lower_depth, config.freeze = 0, ["text/encoder/"]
    return config


@pytest.fixture(params=["image", "text"])
def config(request, tiny_data_dir, tmp_path):
    return make_config(request.param, tiny_data_dir, tmp_path / "features")


@pytest.fixture
def text_config(tiny_data_dir, tmp_path):
    return make_config("text", tiny_data_dir, tmp_path / "features")


def splits(config):
    """The splits of the stored features."""
    folders = pathlib.Path(config.frozen_features.folder).glob("*_features-*")
    return sorted(folder.name.split("-")[1] for folder in folders)


def evaluate_validation(config, **options):
    """Results and embeddings of a split that was not trained on."""
    parts, state = start_run(config)
    evaluation = RunEvaluation(parts, **options)
    adapter = evaluation.adapter(state.all_params(), state.model_state)
    evaluator = evaluation.suite.evaluator(TINY, "validation")
    return evaluator.run(adapter), evaluator.embeddings(adapter)


def assert_equal(found, expected):
    for benchmark, other in zip(found[0], expected[0], strict=True):
        assert benchmark.directions.keys() == other.directions.keys() != set()
        for name, direction in benchmark.directions.items():
            np.testing.assert_array_equal(direction.rank, other.directions[name].rank)
    assert found[1].modalities == expected[1].modalities
    for modality in expected[1].modalities:
        vectors = expected[1].vectors(modality)
        np.testing.assert_allclose(found[1].vectors(modality), vectors, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_ranks_are_those_of_the_whole_towers(config, monkeypatch):
    expected = evaluate_validation(config)
    assert splits(config) == []
    assert_equal(evaluate_validation(config, stores=True), expected)
    assert splits(config) == ["validation"]
    # Other commands read them, and not the inputs of the encoder.
    monkeypatch.setattr(data, "write_features", lambda *args: pytest.fail("computed twice"))
    (modality,) = config.frozen_features.modalities
    reader = {"image": "image_columns", "text": "text_batches"}[modality]
    module = sys.modules["xmodal.data.evaluated_split"]  # The package has a function of this name.
    monkeypatch.setattr(module, reader, lambda *args, **kwargs: pytest.fail("inputs read"))
    assert_equal(evaluate_validation(config), expected)
