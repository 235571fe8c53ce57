"""Embeddings in the order of the groups, and comparisons of samples."""

import numpy as np
import pytest

from data_prep.sampling.groups import make_groups
from xmodal.apps.analysis.sampling.encoders import EncodedItems, embedded_groups
from xmodal.apps.analysis.sampling.structure import format_overlap
from xmodal.core.errors import UnexpectedFilesError


@pytest.fixture
def groups():
    """Images 10, 20, 30 with captions (1, 2), (3, 4), (5)."""
    return make_groups(np.arange(1, 6), np.array([10, 10, 20, 20, 30]), "here")


def encoder(kind, ids, vectors):
    return EncodedItems(f"{kind}.npz", kind, np.array(ids), np.array(vectors, np.float32))


def test_vectors_come_by_id_and_captions_as_means(groups):
    captions = encoder(
        "caption", [5, 4, 3, 2, 1, 99], [[5, 1], [4, 0], [2, 0], [0, 2], [2, 0], [7, 7]]
    )
    images = encoder("image", [30, 10, 20], [[3, 3], [1, 1], [2, 2]])
    kept, vectors = embedded_groups([images, captions], groups)
    assert len(kept) == 3
    assert vectors["caption"][0].tolist() == [[1, 1], [3, 0], [5, 1]]
    assert vectors["image"][0].tolist() == [[1, 1], [2, 2], [3, 3]]


def test_images_that_lack_a_caption_are_left_out_on_request(groups):
    captions = encoder("caption", [1, 2, 3, 5], [[1, 0]] * 4)
    with pytest.raises(UnexpectedFilesError, match=r"1 of the 3 images.* first is 20"):
        embedded_groups([captions], groups)
    kept, vectors = embedded_groups([captions], groups, partial=True)
    assert kept.image_ids.tolist() == [10, 30]
    assert kept.caption_ids.tolist() == [1, 2, 5]
    assert vectors["caption"][0].tolist() == [[1, 0], [1, 0]]


def test_samples_are_compared_as_pairs_of_images_in_any_order(groups):
    # Captions 0 and 1 belong to image 0, 2 and 3 to image 1, 4 to image 2.
    ours = {"c2c_isim": np.array([[0, 2], [4, 1]]), "c2i_original": np.array([[0, 0], [4, 2]])}
    theirs = {"c2c_isim": np.array([[3, 1], [4, 2]]), "c2i_original": np.array([[0, 0], [2, 1]])}
    _, isim, original = format_overlap({**ours, "other": ours}, theirs, groups).splitlines()
    assert isim.split() == ["c2c_isim", "2", "2", "1", "50.0%", "66.7%"]
    assert original.split() == ["c2i_original", "2", "2", "1", "50.0%", "40.0%"]
    # Images with one caption each have no co-captions.
    _, none = format_overlap(
        {"c2i_original": ours["c2i_original"][:0]}, theirs, groups
    ).splitlines()
    assert none.split() == ["c2i_original", "0", "2", "0", "0.0%", "40.0%"]
