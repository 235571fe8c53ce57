import numpy as np

from data_prep.crisscrossed_shapes import pair_sampling


def test_cross_pairs_take_turns_from_the_best_sources_down():
    rng = np.random.default_rng(0)
    images = np.array([(0, 1), (2, 3), (4, 5), (6, 7)])
    captions = np.array([(40, 45), (50, 55), (60, 65)])  # of images 8 to 13
    pairs = pair_sampling.cross_pairs(
        images, np.array([1.0, 4.0, 3.0, 2.0]), captions, np.array([0.5, 2.5, 1.5]), 6, rng
    )
    sources = [{2, 3}, {10, 11}, {4, 5}, {12, 13}, {6, 7}, {8, 9}]
    assert [{caption // 5, image} for caption, image in pairs.tolist()] == sources
    assert all(caption % 5 == 0 for caption in pairs[1::2, 0])  # the rated captions themselves


def test_cross_pairs_skip_repetitions_and_end_with_their_sources():
    rng = np.random.default_rng(0)
    captions = np.array([(0, 5), (5, 0), (0, 5), (5, 0)])
    pairs = pair_sampling.cross_pairs(
        np.zeros((0, 2), int), np.zeros(0), captions, np.zeros(4), number=10, rng=rng
    )
    assert 1 <= len(pairs) <= 2
    assert {tuple(pair) for pair in pairs.tolist()} <= {(0, 1), (5, 0)}


def test_word_vectors_weigh_rare_words_more():
    weighted, counts = pair_sampling.word_vectors(["A red star.", "a red, red ring", "a moon"])
    # Columns in alphabetical order: a, moon, red, ring, star.
    np.testing.assert_array_equal(counts, [[1, 0, 1, 0, 1], [1, 0, 2, 1, 0], [1, 1, 0, 0, 0]])
    expected = counts * np.log([1, 3, 1.5, 3, 3])
    np.testing.assert_allclose(weighted, expected, rtol=1e-6)


def test_coarse_pixels_are_centered_cell_means():
    images = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3)).astype(np.uint8)
    vectors = pair_sampling.coarse_pixels(images, cells=2)
    corner = images[:, :8, 8:].astype(float).mean(axis=(1, 2))
    assert vectors.shape == (3, 12)
    np.testing.assert_allclose(vectors[:, 3:6], corner - corner.mean(axis=0), rtol=1e-4, atol=1e-3)
