"""Embeddings and scores are put in the order of a split, or rejected."""

import types

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores import files, sources
from xmodal.evals.scores.score_rows import MatrixScores

LABELS = types.SimpleNamespace(
    image_ids=np.arange(10, 30, dtype=np.int32),
    caption_ids=np.arange(100, 140, dtype=np.int32)[::-1],
)


def embeddings(image_ids, caption_ids):
    """Embeddings that encode the id of their item."""
    given = {}
    for name, ids in (("image", image_ids), ("caption", caption_ids)):
        if ids is not None:
            rows = np.repeat(np.float32(ids)[:, None], 3, axis=1)
            given |= {f"{name}_ids": np.asarray(ids), f"{name}_embeddings": rows}
    return files.load_embeddings(given)


def shuffled(ids):
    return np.random.default_rng(1).permutation(ids)


def test_embeddings_take_the_order_of_the_split_and_ignore_others():
    extra = [*shuffled(LABELS.image_ids), 7, 5]
    saved = embeddings(extra, shuffled(LABELS.caption_ids))
    ordered = sources.order_embeddings(saved, LABELS)
    np.testing.assert_array_equal(ordered.images[:, 0], LABELS.image_ids)
    np.testing.assert_array_equal(ordered.image_ids, LABELS.image_ids)
    np.testing.assert_array_equal(ordered.captions[:, 2], LABELS.caption_ids)


def test_items_that_are_missing():
    saved = embeddings([*range(10, 20), *range(22, 30)], LABELS.caption_ids)
    with pytest.raises(UserError, match="lacks 2 of the 20 images .* is image id 20"):
        sources.order_embeddings(saved, LABELS)


def test_scores_on_disk_are_reordered_where_they_are_looked_at(tmp_path):
    image_ids, caption_ids = [*shuffled(LABELS.image_ids), 5], shuffled(LABELS.caption_ids)
    matrix = np.multiply.outer(np.float32(image_ids), np.float32(caption_ids))
    np.save(tmp_path / "scores.npy", matrix)
    saved = files.load_scores(
        tmp_path / "scores.npy", {"image_ids": image_ids, "caption_ids": caption_ids}
    )
    expected = np.multiply.outer(np.float32(LABELS.image_ids), np.float32(LABELS.caption_ids))
    found = MatrixScores(saved.matrix, *sources.find_items(saved, LABELS))
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.rows(np.arange(20)), expected)
