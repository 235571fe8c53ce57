"""A run with a tokenizer other than a vocab.txt carries its file into loading and bundles."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import xmodal
from configs import quickstart
from tests import short_runs
from tests.data.text.tiny_pieces import sentencepiece_model
from xmodal.api.exporting import export_model
from xmodal.core.errors import UserError
from xmodal.train import loop

MERGES = "#version: 0.2\nr e\nre d</w>\nc i\nci r\nc l\ncl e</w>\ncir cle</w>\n"
TEXTS = ["A red circle left of a blue square!", "reddish", "ein größerer Kreis"]
ALONE = """
import sys, json, numpy as np
sys.modules.update(dict.fromkeys(["tensorflow", "tensorflow_text", "flax", "xmodal.models"]))
import xmodal
model = xmodal.load(sys.argv[1])
np.save(sys.argv[2], model.embed_texts(json.loads(sys.argv[3])))
"""


def train(shapes, run, **text):
    """Two steps of a tiny text tower with a tokenizer of its own."""
    config = quickstart.get_config("t2t")
    config.data.data_dir, config.total_steps, config.batch_size = shapes, 2, 16
    config.data.text.update(text)
    config.model.text.encoder.max_positions = text["max_length"]
    config.model.text.encoder.update({"width": 16, "heads": 2, "mlp_dim": 16, "depth": 1})
    config.model.text.head, config.model.text.projection.width = {"name": "lasttoken"}, 8
    config.optimizer.schedule.warmup_steps = 1
    config.evals.shapes.update({"every": 0, "bootstrap_samples": 10})
    config.tensorboard.update(queries=0, pairs=0, projector=0)
    loop.train(config, str(run))


def embed_alone(bundle, folder):
    """The vectors of a bundle in a process without the libraries of training."""
    found = folder / "found.npy"
    command = [sys.executable, "-c", ALONE, str(bundle), str(found), json.dumps(TEXTS)]
    subprocess.run(command, check=True, env=os.environ | short_runs.variables(1))
    return np.load(found)


@pytest.mark.slow
def test_byte_pairs_go_with_a_run_and_its_bundle(few_shapes, tmp_path):
    merges, run, bundle = tmp_path / "merges.txt", tmp_path / "run", tmp_path / "bundle"
    merges.write_text(MERGES)
    train(few_shapes, run, tokenizer="bpe", vocabulary=str(merges), max_length=40)

    merges.unlink()
    assert (run / "merges.txt").read_text() == MERGES
    saved = json.loads((run / "config.json").read_text())
    assert saved["data"]["text"]["vocabulary"] == "merges.txt"
    assert saved["model"]["text"]["encoder"]["vocab_size"] == 521
    model = xmodal.load(run)
    ids, mask = model.tokenize(TEXTS)
    assert ids[1][mask[1] > 0][0] == 519
    export_model(run, bundle)
    assert (bundle / "merges.txt").read_text() == MERGES
    assert xmodal.load(bundle).hash_weights() == model.hash_weights()
    np.testing.assert_allclose(embed_alone(bundle, tmp_path), model.embed_texts(TEXTS), atol=1e-5)

    (run / "merges.txt").unlink()
    with pytest.raises(UserError, match=r"merges.txt, the run's vocabulary, is missing"):
        xmodal.load(run)


@pytest.mark.slow
def test_pads_of_a_sentencepiece_model_are_read_by_run_and_bundle(few_shapes, tmp_path):
    file, run, bundle = tmp_path / "spiece.model", tmp_path / "run", tmp_path / "bundle"
    content = sentencepiece_model()
    file.write_bytes(content)
    text = {"end": "</s>", "pad": "</s>", "attend_to_padding": True, "max_length": 40}
    train(few_shapes, run, tokenizer="sentencepiece", vocabulary=str(file), **text)

    file.unlink()
    assert (run / "sentencepiece.model").read_bytes() == content
    model = xmodal.load(run)
    ids, mask = model.tokenize(TEXTS)
    assert mask.all()
    assert ids[1][-1] == 1
    card = export_model(run, bundle)
    assert card.text.lengths == (40,)
    assert card.requires[-1] == "sentencepiece"
    assert (bundle / "sentencepiece.model").read_bytes() == content
    vectors = model.embed_texts(TEXTS)
    np.testing.assert_allclose(embed_alone(bundle, tmp_path), vectors, atol=1e-5)
    # A short text on its own is not padded to a shorter length, which would change its vector.
    np.testing.assert_allclose(model.embed_texts(TEXTS[1:2]), vectors[1:2], atol=1e-5)
