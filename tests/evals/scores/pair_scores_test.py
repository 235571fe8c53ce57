"""Scores of pairs in blocks against one pair at a time."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import short_runs
from tests.short_runs import free_port
from xmodal.core import mesh as mesh_lib
from xmodal.evals.scores import pair_scores, score_files
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_files import ScoreFile

IMAGES, CAPTIONS, WIDTH = 21, 45, 3


def prepare(modality, params, items):
    """The weighted sum of the real tokens, and their number."""
    tokens, mask, _ = items
    tokens = jnp.where(mask[..., None], tokens, 0) * params[modality]
    return {"sum": tokens.sum(axis=1), "count": mask.sum(axis=1)}


def score(params, images, texts):
    found = jnp.einsum("iw,ijw->ij", images["sum"], texts["sum"])
    return found / (images["count"][:, None] + texts["count"]) + params["bias"]


def slow_score(params, image, text):
    image, text = image * params["image"], text * params["text"]
    return image.sum(axis=0) @ text.sum(axis=0) / (len(image) + len(text)) + params["bias"]


class Items:
    """Items of both modalities, and calls of the functions."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.images = self.draw(rng, IMAGES, 5)
        self.captions = self.draw(rng, CAPTIONS, 30)
        self.params = {"image": 0.5, "text": 2.0, "bias": 0.25}
        self.calls = []

    def draw(self, rng, count, length):
        mask = np.arange(length) < rng.integers(1, length + 1, (count, 1))
        tokens = rng.normal(size=(count, length, WIDTH)).astype(np.float32)
        return RaggedTokens.from_padded(np.where(mask[..., None], tokens, np.nan), mask)

    def open(self, devices=1):
        def watched(modality, params, items):
            jax.debug.callback(lambda x: self.calls.append((modality, len(x))), items[1])
            return prepare(modality, params, items)

        functions = PairFunctions("sum", watched, score, lambda i, t: 4 * i * t, "a sum")
        mesh = mesh_lib.make_mesh(jax.devices()[:devices])
        return PairScores(PairProgram(functions, mesh), self.params, self.images, self.captions)

    def expected(self, images, captions):
        return [
            slow_score(self.params, self.images[[i]].values, self.captions[[c]].values)
            for i, c in zip(images, captions, strict=True)
        ]


def draw_pairs(count, seed=1):
    """Pairs with repetitions; image 3 is in many of them, and image 4 in none."""
    rng = np.random.default_rng(seed)
    images = np.where(rng.random(count) < 0.3, 3, rng.integers(5, IMAGES, count))
    return images, rng.integers(0, CAPTIONS, count)


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize(("most", "many"), [(4, 1 << 22), (64, 0)])
def test_scores_are_those_of_single_pairs(devices, most, many, monkeypatch):
    """Texts padded to multiples of 8, and to ten even lengths, of which a block has several."""
    monkeypatch.setattr(pair_scores, "_MOST_IMAGES", most)
    monkeypatch.setattr(pair_scores, "_MANY_PAIRS", many)
    items, pairs = Items(), draw_pairs(300)
    found = items.open(devices).pairs(*pairs)
    np.testing.assert_allclose(found, items.expected(*pairs), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_a_killed_evaluation_scores_at_most_one_block_again(devices, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(pair_scores, "_MOST_IMAGES", 2 if devices == 1 else 1)
    size = 2 if devices == 1 else 8
    items, every = Items(), np.indices((IMAGES, CAPTIONS)).reshape(2, -1)
    expected = items.open(devices).pairs(*every)  # In memory: there are few pairs.
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(pair_scores, "_SAVED_PAIRS", 0)
    jax.effects_barrier()
    total = items.calls.count(("image", size))
    killed, keep, blocks = items.open(devices), ScoreFile.finish, []

    def finish_one(self, *pairs):
        if len(blocks) == 1:
            raise KeyboardInterrupt
        blocks.append(pairs)
        keep(self, *pairs)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreFile, "finish", finish_one)
        with pytest.raises(KeyboardInterrupt):
            killed.pairs(*every)
    score_files._remove_complete()  # As the process that was killed.
    (file,) = tmp_path.glob("**/finished.npy")
    assert np.load(file).sum() == blocks[0][1].sum() < IMAGES * CAPTIONS
    jax.effects_barrier()
    items.calls.clear()
    resumed = items.open(devices)
    np.testing.assert_array_equal(resumed.pairs(*every), expected)
    jax.effects_barrier()
    assert items.calls.count(("image", size)) < total
    score_files._remove_complete()
    assert not list(tmp_path.glob("**/finished.npy"))


_PROCESS = """
import sys

import jax
import numpy as np

from tests.evals.scores.pair_scores_test import CAPTIONS, IMAGES, Items, prepare, score
from xmodal.core import mesh, processes
from xmodal.evals.scores import pair_scores
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores
from xmodal.evals.scores.score_files import ScoreFile

processes.initialize()
pair_scores._MOST_IMAGES, pair_scores._SAVED_PAIRS = 1, 0
items, every = Items(), np.indices((IMAGES, CAPTIONS)).reshape(2, -1)
functions = PairFunctions("sum", prepare, score, lambda i, t: 4 * i * t, "a sum")
program = PairProgram(functions, mesh.make_mesh())
finish, blocks = ScoreFile.finish, []


def finish_and_fail(self, *pairs):
    # The first process has written its second block, and the other has not.
    blocks.append(pairs)
    if len(blocks) == 1 or jax.process_index() == 0:
        finish(self, *pairs)
    if len(blocks) == 2:
        raise KeyboardInterrupt


ScoreFile.finish = finish_and_fail
for _ in range(2):
    opened = PairScores(program, items.params, items.images, items.captions)
    try:
        found = opened.pairs(*every)
    except KeyboardInterrupt:
        ScoreFile.finish = lambda *pairs: (blocks.append(pairs), finish(*pairs))
np.savez(f"{sys.argv[1]}/{jax.process_index()}.npz", scores=found, blocks=len(blocks))
"""


@pytest.mark.slow
def test_two_processes_resume_with_what_both_have_finished(tmp_path):
    together = short_runs.variables(devices=2) | {
        "JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}",
        "JAX_NUM_PROCESSES": "2",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    program = [sys.executable, "-c", textwrap.dedent(_PROCESS), str(tmp_path)]
    pair = [
        subprocess.Popen(program, env=os.environ | together | {"JAX_PROCESS_ID": str(number)})
        for number in range(2)
    ]
    try:
        assert [process.wait(timeout=120) for process in pair] == [0, 0]
    finally:
        for process in pair:
            process.kill()
    every = np.indices((IMAGES, CAPTIONS)).reshape(2, -1)
    opened = Items().open()
    expected, blocks = opened.pairs(*every), list(opened._image_blocks(np.arange(IMAGES), 4))
    for number in range(2):
        found = np.load(tmp_path / f"{number}.npz")
        np.testing.assert_allclose(found["scores"], expected, rtol=1e-5, atol=1e-6)
        assert found["blocks"] == 2 + len(blocks) - 1  # All but the first again.
    assert not list((tmp_path / "cache").glob("**/scores.npy"))  # Removed at exit.
