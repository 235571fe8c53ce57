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
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores, Tokens

IMAGES, CAPTIONS, WIDTH = 21, 45, 3


def prepare(side, params, items):
    """The weighted sum of the real tokens, and their number."""
    tokens, mask = items.tokens, items.mask
    tokens = jnp.where(mask[..., None], tokens, 0) * params[side]
    return {"sum": tokens.sum(axis=1), "count": mask.sum(axis=1)}


def score(params, images, texts):
    found = jnp.einsum("iw,ijw->ij", images["sum"], texts["sum"])
    return found / (images["count"][:, None] + texts["count"]) + params["bias"]


def slow_score(params, image, text):
    image, text = image * params["image"], text * params["text"]
    return image.sum(axis=0) @ text.sum(axis=0) / (len(image) + len(text)) + params["bias"]


class Items:
    """Items of both sides, and calls of the functions."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.images = self.draw(rng, IMAGES, 5)
        self.captions = self.draw(rng, CAPTIONS, 30)
        self.params = {"image": 0.5, "text": 2.0, "bias": 0.25}
        self.calls = []

    def draw(self, rng, count, length):
        mask = np.arange(length) < rng.integers(1, length + 1, (count, 1))
        tokens = rng.normal(size=(count, length, WIDTH)).astype(np.float32)
        return Tokens(np.where(mask[..., None], tokens, np.nan), mask)

    def open(self, devices=1):
        def watched(side, params, items):
            jax.debug.callback(lambda x: self.calls.append((side, len(x))), items.mask)
            return prepare(side, params, items)

        functions = PairFunctions("sum", watched, score, lambda i, t: 4 * i * t, "a sum")
        mesh = mesh_lib.make_mesh(jax.devices()[:devices])
        return PairScores(PairProgram(functions, mesh), self.params, self.images, self.captions)

    def expected(self, images, captions):
        return [
            slow_score(
                self.params,
                self.images.tokens[i][self.images.mask[i]],
                self.captions.tokens[c][self.captions.mask[c]],
            )
            for i, c in zip(images, captions, strict=True)
        ]


def draw_pairs(count, seed=1):
    """Pairs with repetitions; image 3 is in many of them, and image 4 in none."""
    rng = np.random.default_rng(seed)
    images = np.where(rng.random(count) < 0.3, 3, rng.integers(5, IMAGES, count))
    return images, rng.integers(0, CAPTIONS, count)


@pytest.mark.parametrize("devices", [1, 2, 8])
@pytest.mark.parametrize(("most", "many"), [(4, 1 << 22), (64, 0)])
def test_scores_are_those_of_single_pairs(devices, most, many, monkeypatch):
    """Texts padded to multiples of 8, and to ten even lengths, of which a block has several."""
    monkeypatch.setattr(pair_scores, "_MOST_IMAGES", most)
    monkeypatch.setattr(pair_scores, "_MANY_PAIRS", many)
    items, pairs = Items(), draw_pairs(300)
    found = items.open(devices).pairs(*pairs)
    np.testing.assert_allclose(found, items.expected(*pairs), rtol=1e-4, atol=1e-5)


def test_nothing_is_computed_twice(monkeypatch):
    monkeypatch.setattr(pair_scores, "_MOST_IMAGES", 4)
    items, pairs = Items(), draw_pairs(300)
    opened = items.open()
    opened.pairs(*pairs)
    jax.effects_barrier()
    blocks = -(-len(np.unique(pairs[0])) // 4)
    assert items.calls.count(("image", 4)) == blocks
    assert sum(side == "text" for side, _ in items.calls) <= CAPTIONS // 4 + 5
    before = len(items.calls)
    opened.pairs(pairs[0][::-1], pairs[1][::-1])
    jax.effects_barrier()
    assert len(items.calls) == before


def test_items_in_another_order():
    items = Items()
    opened = items.open()
    rng = np.random.default_rng(2)
    of_images, of_captions = rng.permutation(IMAGES)[:9], rng.permutation(CAPTIONS)[:17]
    images, captions = rng.integers(0, 5, 30), rng.integers(0, 11, 30)
    taken = opened.take(of_images, of_captions).take(np.arange(2, 7), np.arange(3, 14))
    found = taken.pairs(images, captions)
    expected = opened.pairs(of_images[2:7][images], of_captions[3:14][captions])
    np.testing.assert_array_equal(found, expected)


def test_blocks_follow_the_memory_of_a_device(monkeypatch):
    items = Items()
    program = items.open()._program
    own, pair = 4 * (WIDTH + 1), 4 * 5 * 30
    image = own + 16 * pair
    for texts, share, images, places in (
        (100, image * 5, 4, [16, 16]),
        (100, image * 4 - 1, 2, [16, 16]),
        (100, 16 * pair - 1, 1, [16, 8]),  # Of 15 and 30 tokens.
        (100, own + 2 * pair, 1, [4, 2]),
        (100, 1, 1, [1, 1]),
        (100, 1 << 40, 32, [16, 16]),
        (9, 1 << 40, 32, [16, 16]),
        (5, 1 << 40, 32, [8, 8]),
        (1, 1 << 40, 32, [1, 1]),  # An image has no place for others.
    ):
        monkeypatch.setattr(pair_scores, "_UNKNOWN_MEMORY", 16 * share)
        given = items.params, items.images, np.array([15, 30]), texts
        found, of_texts = program.block_shape(*given)
        assert (found, of_texts.tolist()) == (images, places)


def test_what_is_finished_does_not_change_the_shapes_of_a_request(monkeypatch):
    """So that a resumed one rounds alike."""
    opened, shape, means = Items().open(), PairProgram.block_shape, []

    def watched(self, *given):
        means.append(given[-1])
        return shape(self, *given)

    monkeypatch.setattr(PairProgram, "block_shape", watched)
    images, captions = np.repeat([3, 4, 5], [9, 1, 2]), np.arange(12)
    opened.pairs(images[:9], captions[:9])
    opened.pairs(images, captions)  # Of images 4 and 5.
    assert means == [9, 4]


def test_texts_of_a_block_are_about_as_long():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, CAPTIONS)
    images = np.repeat([7, 2], [CAPTIONS, 13])
    captions = np.concatenate([np.arange(CAPTIONS), rng.permutation(CAPTIONS)[:13]])
    wanted = np.zeros((2, CAPTIONS), bool)
    wanted[np.where(images == 7, 0, 1), captions] = True
    every_8 = np.full(CAPTIONS, 8)
    blocks = [each[1:] for each in pair_scores._calls(wanted, np.argsort(-lengths), every_8)]
    assert len(blocks) == -(-CAPTIONS // 8)  # Only the last places of an image are empty.
    seen = []
    for number, ((rows, columns), of_caption) in enumerate(blocks):
        of_image = np.array([7, 2])[rows]
        seen += zip(of_image.tolist(), of_caption.tolist(), strict=True)
        for row, of_row in enumerate((np.arange(CAPTIONS), captions[images == 2])):
            longest_first = np.sort(lengths[of_row])[::-1][8 * number : 8 * number + 8]
            found = lengths[of_caption[rows == row]][np.argsort(columns[rows == row])]
            np.testing.assert_array_equal(found, longest_first)
    assert sorted(seen) == sorted(zip(images.tolist(), captions.tolist(), strict=True))


def test_the_longest_text_of_a_call_determines_their_number():
    lengths = np.array([2, 9, 1, 9, 4, 4, 9, 1, 1, 2, 4])
    wanted = np.ones((2, len(lengths)), bool)
    wanted[1, lengths == 9] = False
    order = np.argsort(-lengths, kind="stable")
    places = np.select([lengths > 4, lengths > 2], [1, 2], 4)
    calls = list(pair_scores._calls(wanted, order, places))
    assert [width for width, *_ in calls] == [1, 1, 1, 2, 2, 4]
    for row in range(2):
        found = [caption for _, slots, at in calls for caption in at[slots[0] == row]]
        assert found == [caption for caption in order if wanted[row, caption]]


def test_many_pairs_repay_more_lengths():
    tokens = Tokens(np.zeros((45, 45, 1)), np.arange(45) < np.arange(45)[:, None])
    few = pair_scores._padded_lengths(tokens, pairs=100)
    assert few.tolist() == [8] * 9 + [16] * 8 + [24] * 8 + [32] * 8 + [40] * 8 + [45] * 4
    even = [2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 45]
    many = pair_scores._padded_lengths(tokens, pairs=1 << 22)
    assert many.tolist() == [min(x for x in even if x >= length) for length in range(45)]


def test_tokens_of_different_lengths_are_joined():
    rng = np.random.default_rng(0)
    parts = [
        (
            rows,
            Tokens(rng.normal(size=(len(rows), t, 2)), np.ones((len(rows), t), bool), {"n": rows}),
        )
        for rows, t in ((np.array([3, 0]), 2), (np.array([1, 2, 4]), 5))
    ]
    joined = Tokens.join(parts)
    assert joined.mask.sum(axis=1).tolist() == [2, 5, 5, 2, 5]
    assert joined.extras["n"].tolist() == [0, 1, 2, 3, 4]
    for rows, part in parts:
        np.testing.assert_array_equal(joined.tokens[rows, : part.mask.shape[1]], part.tokens)


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
    killed, keep, blocks = items.open(devices), PairScores._finish, []

    def finish_one(self, *pairs):
        if len(blocks) == 1:
            raise KeyboardInterrupt
        blocks.append(pairs)
        keep(self, *pairs)

    with monkeypatch.context() as patch:
        patch.setattr(PairScores, "_finish", finish_one)
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
from xmodal.evals.scores import score_files

processes.initialize()
pair_scores._MOST_IMAGES, pair_scores._SAVED_PAIRS, score_files._AGREED = 1, 0, 7
items, every = Items(), np.indices((IMAGES, CAPTIONS)).reshape(2, -1)
functions = PairFunctions("sum", prepare, score, lambda i, t: 4 * i * t, "a sum")
program = PairProgram(functions, mesh.make_mesh())
finish, blocks = PairScores._finish, []


def finish_and_fail(self, *pairs):
    # The first process has written its second block, and the other has not.
    blocks.append(pairs)
    if len(blocks) == 1 or jax.process_index() == 0:
        finish(self, *pairs)
    if len(blocks) == 2:
        raise KeyboardInterrupt


PairScores._finish = finish_and_fail
for _ in range(2):
    opened = PairScores(program, items.params, items.images, items.captions)
    try:
        found = opened.pairs(*every)
    except KeyboardInterrupt:
        PairScores._finish = lambda *pairs: (blocks.append(pairs), finish(*pairs))
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
