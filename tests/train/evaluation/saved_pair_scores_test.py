"""A file of `--save_scores` gives the results of the evaluator that scored the pairs."""

import jax
import numpy as np
import pytest

from configs import vilt
from tests.saved_run import evaluate_weights
from xmodal.core import mesh as mesh_lib
from xmodal.evals.scores.arrays import load_scores
from xmodal.evals.scores.sources import FileOrigin
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.suite import Request
from xmodal.train.resolve import build_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(few_shapes):
    """The evaluation of a model without embeddings, and weights."""
    config = vilt.get_config("quick")
    config.data.data_dir, config.model.text.encoder.vocab_size = few_shapes, 400
    config.model.image.encoder.width, config.optimizer.schedule.warmup_steps = 16, 1
    config.model.cross_encoder.update({"width": 16, "depth": 1, "mlp_dim": 16})
    config.evals.shapes.update({"every": 0, "batch_size": 64, "boards": ["shapes_own"]})
    parts = build_run(config, mesh_lib.make_mesh(jax.devices()[:1]))
    return RunEvaluation(parts, trains=False), parts.init_params(parts.key_data)


def test_a_matrix_has_the_scores_of_all_pairs(opened, tmp_path):
    evaluation, weights = opened
    path = str(tmp_path / "scores.npz")
    (judged,) = evaluate_weights(evaluation, *weights, name="x", request=Request(save_scores=path))
    found = load_scores(path)
    (board,) = judged.results
    for direction, of_image in (("i2t", 1), ("t2i", 0)):
        ids = (found.image_ids, found.caption_ids)[1 - of_image]
        np.testing.assert_array_equal(board.directions[direction].query_ids, ids)
    items = evaluation.suite.items("shapes", evaluation.suite.split_of("shapes", None))
    np.testing.assert_array_equal(found.image_ids, items.image_ids)
    assert found.origin == FileOrigin("x", items.hashes)
    scores = found.matrix.T
    own = scores[np.arange(len(scores)), items.caption_rows]
    ranks = np.sum(scores > own[:, None], axis=1)
    np.testing.assert_array_equal(board.directions["t2i"].rank, ranks)
    assert len(np.unique(ranks)) > 3
