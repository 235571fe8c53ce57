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
from xmodal.api.exporting import export_model
from xmodal.base.config import UserError
from xmodal.runs import loop

MERGES = "#version: 0.2\nr e\nre d</w>\nc i\nci r\nc l\ncl e</w>\ncir cle</w>\n"
TEXTS = ["A red circle left of a blue square!", "reddish", "ein größerer Kreis"]
ALONE = """
import sys, json, numpy as np
sys.modules.update(dict.fromkeys(["tensorflow", "tensorflow_text", "flax", "xmodal.models"]))
import xmodal
model = xmodal.load(sys.argv[1])
np.save(sys.argv[2], model.embed_texts(json.loads(sys.argv[3])))
"""


@pytest.mark.slow
def test_byte_pairs_go_with_a_run_and_its_bundle(few_shapes, tmp_path):
    merges, run, bundle = tmp_path / "merges.txt", tmp_path / "run", tmp_path / "bundle"
    merges.write_text(MERGES)
    config = quickstart.get_config("t2t")
    config.data.data_dir, config.total_steps, config.batch_size = few_shapes, 2, 16
    config.data.text.tokenizer, config.data.text.vocabulary = "bpe", str(merges)
    config.data.text.max_length = config.model.text.encoder.max_positions = 40
    config.model.text.encoder.update({"width": 16, "heads": 2, "mlp_dim": 16, "depth": 1})
    config.model.text.head, config.model.text.projection.width = {"name": "mean"}, 8
    config.optimizer.schedule.warmup_steps = 1
    config.evals.shapes.update({"every": 0, "bootstrap_samples": 10})
    config.tensorboard.update(queries=0, pairs=0, projector=0)
    loop.train(config, str(run))

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
    found = tmp_path / "found.npy"
    command = [sys.executable, "-c", ALONE, str(bundle), str(found), json.dumps(TEXTS)]
    subprocess.run(command, check=True, env=os.environ | short_runs.variables(1))
    np.testing.assert_allclose(np.load(found), model.embed_texts(TEXTS), atol=1e-5)

    (run / "merges.txt").write_text(MERGES.replace("r e\n", "e r\n"))
    with pytest.raises(UserError, match=r"merges.txt has different words from those the run"):
        xmodal.load(run)
    (run / "merges.txt").unlink()
    with pytest.raises(UserError, match=r"merges.txt, the run's vocabulary, is missing"):
        xmodal.load(run)
