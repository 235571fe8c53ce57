"""A file of `--save_embeddings` is ranked as the evaluators that judged the embeddings."""

import jax
import pytest

from configs import base, pcme
from tests.saved_run import evaluate_file, evaluate_weights
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.evals import load_embeddings
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.suite import Request
from xmodal.train.resolve import build_run

pytestmark = pytest.mark.slow

OPTIONS = {"every": 0, "batch_size": 64, "bootstrap_samples": 10, "boards": ["shapes_own"]}


@pytest.fixture(scope="module")
def config(few_shapes):
    """Items are distributions: `shapes` ranks their samples, `mean` their means."""
    config = pcme.get_config("quick")
    config.data.data_dir, config.optimizer = few_shapes, base.adam(1e-3)
    config.model.text.encoder.vocab_size = 400
    # Compiles in a second.
    config.model.image.encoder = {"name": "convnet", "channels": (4, 8), "units": (0, 1)}
    config.data.image.size, config.freeze, config.frozen_features.sides = 24, (), ()
    config.data.text = {"tokenizer": "words", "max_length": 16}
    config.evals = {
        "shapes": {"type": "boards", **OPTIONS},
        "mean": {"type": "boards", "similarity": pcme.MEANS, **OPTIONS},
    }
    return config


@pytest.fixture(scope="module")
def parts(config):
    return build_run(config, mesh_lib.make_mesh(jax.devices()[:1]))


@pytest.fixture(scope="module")
def weights(parts):
    return parts.init_params(parts.key_data)


@pytest.fixture(scope="module")
def saved(parts, weights, tmp_path_factory):
    """Evaluator -> its file, and its numbers."""
    folder, found = tmp_path_factory.mktemp("saved"), {}
    for name in ("shapes", "mean"):
        path = str(folder / f"{name}.npz")
        evaluation = RunEvaluation(parts, names=[name], trains=False)
        (judged,) = evaluate_weights(
            evaluation, *weights, name=name, request=Request(save_embeddings=path)
        )
        found[name] = path, judged.metrics
    return found


def test_a_file_of_another_field_has_its_similarity(saved):
    samples, means = (load_embeddings(saved[name][0]) for name in ("shapes", "mean"))
    assert (samples.similarity, samples.images.ndim) == ("match_probability", 3)
    assert (means.similarity, means.images.ndim) == ("cosine", 2)
    assert means.parameters == {}


def test_evaluators_without_a_field_use_both_files(config, saved, caplog):
    for path, metrics in saved.values():
        (found,) = evaluate_file(path, config)
        assert found.metrics == metrics
        assert "Left out: config.evals.mean needs the array 'mean'" in caplog.text


def test_an_evaluator_of_another_field_is_refused_by_name(config, saved):
    for path, _ in saved.values():
        with pytest.raises(UserError, match=r"mean needs the array 'mean', which .*--run=RUN"):
            evaluate_file(path, config, names=["mean"])


def test_evaluators_have_to_share_a_similarity(config, parts, weights, monkeypatch):
    evaluation = RunEvaluation(parts, trains=False)
    monkeypatch.setattr(evaluation, "_embedder", None)  # Said before anything is embedded.
    with pytest.raises(UserError, match="2 sets of embeddings, .* share a split and a similarity"):
        evaluate_weights(evaluation, *weights, name="x", request=Request(save_embeddings="x.npz"))
