"""Score blocks against a slow loop; any number of devices; a killed computation continues."""

import jax
import numpy as np
import pytest

from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_view
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.evals.scores import files, score_blocks
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.sources import Embeddings
from xmodal.evals.scores.vector_scores import open_scores
from xmodal.similarity import make_similarity

SAF = make_similarity({"name": "saf", "width": 5})
IMAGES, CAPTIONS = 7, 19


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def make_items():
    views = [make_view(IMAGES, 4, ragged=False), make_view(CAPTIONS, 19, seed=1)]
    items = [
        score_blocks.HostItems(
            view.vector, RaggedTokens.from_padded(view.extras["tokens"], view.extras["mask"])
        )
        for view in views
    ]
    return views, items, make_params(SAF, views)


def compute(devices=1, fsdp=1, **options):
    _, items, params = make_items()
    mesh = mesh_lib.make_mesh(jax.devices()[:devices], fsdp)
    return score_blocks.compute_score_matrix(SAF, params, *items, mesh=mesh, **options)


@pytest.mark.parametrize("tile_bytes", [score_blocks._TILE_BYTES, 10_000])
def test_equals_the_slow_loop(tmp_path, monkeypatch, tile_bytes):
    """Whole blocks, or padded tiles of at most 2 x 2 pairs."""
    monkeypatch.setattr(score_blocks, "_TILE_BYTES", tile_bytes)
    score_blocks._score_blocks.clear_cache()
    views, _, params = make_items()
    expected = score_pairs(params, *map(real_items, views))
    np.testing.assert_allclose(compute(folder=tmp_path), expected, rtol=1e-4, atol=1e-5)


def test_a_killed_computation_continues_with_the_first_unfinished_block(tmp_path, monkeypatch):
    monkeypatch.setattr(score_blocks, "_BLOCK_FLOPS", 2e4)
    expected = np.array(compute(folder=tmp_path / "whole"))
    score_round, rounds = score_blocks._score_blocks, []

    def score_some(*inputs):
        rounds.append(1)
        if len(rounds) == 4:
            raise KeyboardInterrupt
        return score_round(*inputs)

    monkeypatch.setattr(score_blocks, "_score_blocks", score_some)
    with pytest.raises(KeyboardInterrupt):
        compute(folder=tmp_path / "killed")
    (file,) = (tmp_path / "killed").glob("*/*/finished.npy")
    finished = np.load(file)
    assert finished.tolist() == [True] * 3 + [False] * (len(finished) - 3)
    rounds[:] = [1] * 4  # The rest is scored, on two devices.
    np.testing.assert_array_equal(compute(2, 2, folder=tmp_path / "killed"), expected)
    assert (len(finished) - 3) / 2 <= len(rounds) - 4 < len(finished) - 3
    rounds[:] = [1] * 4
    np.testing.assert_array_equal(compute(folder=tmp_path / "killed"), expected)
    assert len(rounds) == 4  # Everything is finished.


def test_only_the_scores_of_token_sets_are_saved(tmp_path):
    views, items, params = make_items()
    embeddings = Embeddings(
        "a model", np.arange(IMAGES), views[0].vector, np.arange(CAPTIONS), views[1].vector,
        similarity="saf", parameters=params, options={"width": 5},
        tokens={"image": items[0].tokens, "text": items[1].tokens},
    )  # fmt: skip
    scores = open_scores(embeddings)["image", "text"]
    np.testing.assert_array_equal(scores.rows(np.arange(IMAGES)), compute())
    with pytest.raises(UserError, match="a model ranks token sets by 'saf'.* use --save_scores"):
        files.save_embeddings(tmp_path / "saf.npz", embeddings)
