"""Embeddings in the order of the groups."""

import numpy as np
import pytest

from data_prep.sampling.groups import make_groups
from xmodal.apps.analysis.sampling.inputs import embedded_groups
from xmodal.core.errors import UnexpectedFilesError


@pytest.fixture
def groups():
    """Images 10, 20, 30 with captions (1, 2), (3, 4), (5)."""
    return make_groups(np.arange(1, 6), np.array([10, 10, 20, 20, 30]), "here")


@pytest.fixture
def encoder(tmp_path):
    def save(kind, ids, vectors):
        path = str(tmp_path / f"{kind}.npz")
        arrays = {f"{kind}_ids": np.array(ids), f"{kind}_embeddings": np.array(vectors, np.float32)}
        np.savez(path, **arrays, similarity="dot")
        return {kind: [path]}

    return save


def test_vectors_come_by_id_and_captions_as_means(groups, encoder):
    captions = encoder(
        "caption", [5, 4, 3, 2, 1, 99], [[5, 1], [4, 0], [2, 0], [0, 2], [2, 0], [7, 7]]
    )
    images = encoder("image", [30, 10, 20], [[3, 3], [1, 1], [2, 2]])
    kept, vectors = embedded_groups(images | captions, groups)
    assert len(kept) == 3
    assert vectors["caption"][0].tolist() == [[1, 1], [3, 0], [5, 1]]
    assert vectors["image"][0].tolist() == [[1, 1], [2, 2], [3, 3]]


def test_images_that_lack_a_caption_are_left_out_on_request(groups, encoder):
    captions = encoder("caption", [1, 2, 3, 5], [[1, 0]] * 4)
    with pytest.raises(UnexpectedFilesError, match=r"1 of the 3 images.* first is 20"):
        embedded_groups(captions, groups)
    kept, vectors = embedded_groups(captions, groups, partial=True)
    assert kept.image_ids.tolist() == [10, 30]
    assert kept.caption_ids.tolist() == [1, 2, 5]
    assert vectors["caption"][0].tolist() == [[1, 0], [1, 0]]
