"""Concepts of similar captions, against a slow loop and in a whole evaluation."""

import jax
import numpy as np
import pytest

from configs import cvse
from tests.integration.papers_test import shrink
from xmodal.evals.scores import completed_concepts
from xmodal.evals.scores.completed_concepts import find_neighbors
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.resolve import resolve
from xmodal.train.start import starting_state


def slow_neighbors(images, captions, fallback):
    """Caption by caption, as sets."""
    found = []
    for i, caption in enumerate(captions):
        near = sorted((j for j in range(len(captions)) if j != i),
                      key=lambda j: -(captions[j] @ caption))[:10]  # fmt: skip
        best = max(range(len(images)), key=lambda n: images[n] @ caption)
        ranking = sorted(range(len(captions)), key=lambda j: -(captions[j] @ images[best]))
        place = ranking.index(i)
        if place >= len(captions) - 3:
            beside = ranking[-3:]
        else:
            beside = ranking[place - 1 : place + 2] if place > 1 else ranking[:3]
        both = [j for j in near if j in beside]
        if len(both) < 3:
            both = near[: fallback[0]] + beside[: fallback[1]]
        found.append({i, *both})
    return found


@pytest.mark.parametrize(
    ("rule", "fallback"), [("completed", (2, 1)), ("completed_flickr30k", (3, 4))]
)
def test_neighbors_equal_a_slow_loop(monkeypatch, rule, fallback):
    monkeypatch.setattr(completed_concepts, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    # Two captions per image in few dimensions, so that all cases of places occur.
    images = rng.normal(size=(12, 3))
    captions = np.repeat(images, 2, axis=0) + 0.5 * rng.normal(size=(24, 3))
    found = find_neighbors(images, captions, rule)
    assert list(found[:, 0]) == list(range(24))
    assert [set(row) for row in found] == slow_neighbors(images, captions, fallback)
    # A split of fewer captions than a list has.
    assert [set(row) for row in find_neighbors(images, captions[:2], rule)] == [{0, 1}, {0, 1}]
    assert set(find_neighbors(images, captions[:1], rule)[0]) == {0}


@pytest.mark.slow
@pytest.mark.usefixtures("fast_compilation", "quick_draws")
def test_a_run_is_evaluated_with_completed_concepts(few_shapes, tmp_path):
    config = cvse.get_config("quick")
    config.data.data_dir, config.batch_size, config.freeze = few_shapes, 16, ()
    config.frozen_features.modalities = ()
    config.data.text.max_length = 8  # One length to compile.
    shrink(config)
    shapes = {**config.evals.shapes.to_dict(), "benchmarks": ("shapes_own",)}
    config.evals = {"own": shapes, "completed": shapes | {"concepts": "completed"}}
    config.best_checkpoint.metric = "own/shapes_own/mean_recall@10"
    parts = resolve(config, devices=jax.devices()[:1])
    evaluation = RunEvaluation(parts)
    state = starting_state(parts, str(tmp_path))
    adapter = evaluation.adapter(state.all_params(), state.model_state)
    own, completed = (evaluation.suite.evaluator(name, "test") for name in ("own", "completed"))
    before, after = own.embeddings(adapter), completed.embeddings(adapter)
    np.testing.assert_array_equal(before.images, after.images)
    assert len(before.captions) == 125
    changed = np.any(np.abs(before.captions - after.captions) > 1e-4, axis=1)
    assert changed.mean() > 0.5
    assert completed.embeddings(adapter) is after
    assert completed.run(adapter)
    assert not any("TRANSDUCTIVE" in each for each in own.provenance.warnings)
    [warning] = [each for each in completed.provenance.warnings if "TRANSDUCTIVE" in each]
    assert "Metrics depend on the gallery" in warning
