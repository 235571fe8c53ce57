"""Caption pairs from the same image and from different images."""

import collections

import numpy as np

from data_prep.caption_pairs import caption_pairs


def images_of(count, seed=0):
    """Images with one to five captions; some captions of an image are equal."""
    generator = np.random.default_rng(seed)
    return [
        (10 * n + 3, [f"caption {k % 4} of {n} " for k in range(generator.integers(1, 6))])
        for n in range(count)
    ]


def draw(images):
    return [example for _, example in caption_pairs("a_test", images)]


def test_half_of_the_pairs_are_of_one_image():
    images = images_of(1600)
    found = draw(images)
    owner = {text.strip(): image for image, texts in images for text in texts}
    assert [pair["pair_id"] for pair in found] == list(range(2000))
    assert {pair["dataset"] for pair in found} == {"a_test"}
    same = [owner[p["sentence1"]] == owner[p["sentence2"]] for p in found]
    assert same == [True] * 1000 + [False] * 1000
    assert [pair["score"] for pair in found] == [1] * 1000 + [0] * 1000
    assert all(pair["sentence1"] != pair["sentence2"] for pair in found)
    positive = [owner[pair["sentence1"]] for pair in found[:1000]]
    assert len(set(positive)) == 1000
    # All captions of an image are drawn, in both orders.
    places = collections.Counter(
        (p["sentence1"].split()[1], p["sentence2"].split()[1]) for p in found[:1000]
    )
    assert {("0", "1"), ("1", "0"), ("3", "2"), ("0", "3")} <= set(places)
    assert len({(p["sentence1"], p["sentence2"]) for p in found[1000:]}) == 1000
