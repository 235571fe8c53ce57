"""Exported models on the Hub: the upload, the card, and the way back."""

import sys

import numpy as np
import pytest
from huggingface_hub import ModelCard

import xmodal
from tests.api.converted_models import MODELS, save_converted
from tests.api.tiny_dual_encoder import make_texts, save_run
from tests.fake_hub import fake_hub as fake_hub
from xmodal.api.exporting import export_model
from xmodal.apps import export
from xmodal.core.errors import UserError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    evals = {"m": {"type": "benchmarks", "data": {"dataset": "flickr8k"}}}
    return save_run(str(tmp_path_factory.mktemp("runs") / "run"), evals=evals)


def test_a_bundle_travels_to_the_hub_and_back(run, fake_hub, tmp_path, monkeypatch, capsys):
    output = tmp_path / "bundle"
    flags = [str(run), f"--output={output}", "--platforms=cpu", "--license=mit"]
    monkeypatch.setattr(sys, "argv", ["export", *flags, "--push_to_hub=lab/tiny"])
    export.main()
    assert "/lab/tiny/commit/" in capsys.readouterr().out
    ((_, files),) = fake_hub.commits
    assert files == sorted(path.name for path in output.iterdir())
    made = fake_hub.repositories["lab/tiny"]
    assert made["weights.safetensors"] == (output / "weights.safetensors").read_bytes()

    card = ModelCard(made["README.md"].decode())
    known = {"license": "mit", "library_name": "xmodal", "model_name": "tiny"}
    known |= {"pipeline_tag": "zero-shot-image-classification"}
    assert {name: getattr(card.data, name) for name in known} == known
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.metric_name, result.metric_value) == ("flickr8k", "m", 0.9)
    assert 'xmodal.load("hf://lab/tiny")' in card.text

    texts = make_texts(5)
    again, expected = xmodal.load("hf://lab/tiny"), xmodal.load(run)
    np.testing.assert_allclose(again.embed_texts(texts), expected.embed_texts(texts), atol=1e-5)


def test_a_text_that_is_there_is_kept_and_metrics_may_be_missing(fake_hub, tmp_path):
    model = save_converted(tmp_path / "model", MODELS["pcme"])
    export_model(model, tmp_path / "bundle", platforms=["cpu"])
    (tmp_path / "bundle" / "README.md").write_text("What we trained it for.\n")
    assert "/lab/tiny/commit/" in xmodal.push_to_hub(tmp_path / "bundle", "lab/tiny")
    card = ModelCard(fake_hub.repositories["lab/tiny"]["README.md"].decode())
    assert card.data.library_name == "xmodal"
    assert card.text.strip() == "What we trained it for."


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match="does not exist: name the output of `xmodal export`"):
        xmodal.push_to_hub(tmp_path / "missing", "lab/tiny")
