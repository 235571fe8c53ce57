"""Captions in the report and the images that they find."""

import types

import numpy as np

from xmodal.evals.examples import find_examples
from xmodal.evals.inputs.sources import Embeddings

IMAGE_IDS = np.array([30, 10, 20])
SPLIT = types.SimpleNamespace(
    caption_ids=np.arange(100, 109),
    caption_image_ids=np.repeat([10, 20, 30], 3),
    caption_texts=[f"caption {i}" for i in range(9)],
)


def embeddings(captions, **options):
    images = np.eye(3, dtype=np.float32)
    order = np.arange(9)[::-1]
    given = {"similarity": "cosine"} | options
    return Embeddings(
        "test", IMAGE_IDS, images, SPLIT.caption_ids[order], np.float32(captions)[order], **given
    )


def test_a_line_per_caption():
    captions = np.zeros((9, 3))
    captions[1] = [0.0, 1.0, 0.0]  # of image 10, at position 1: finds it
    captions[4] = [0.9, 0.5, 0.2]  # of image 20, at position 2: finds image 30, its own is third
    captions[7] = [0.0, 0.9, 0.0]  # of image 30, at position 0: finds image 10, its own ties
    lines = find_examples(embeddings(captions), SPLIT)
    assert lines == [
        '- "caption 1" finds its own image first.',
        '- "caption 4" finds the image of "caption 6" first, its own at rank 3 of 3.',
        '- "caption 7" finds the image of "caption 0" first, its own at rank 2 of 3.',
    ]


def test_several_vectors_of_an_item():
    rng = np.random.default_rng(0)
    source = Embeddings(
        "test",
        IMAGE_IDS,
        rng.normal(size=(3, 2, 4)).astype(np.float32),
        SPLIT.caption_ids,
        rng.normal(size=(9, 2, 4)).astype(np.float32),
        similarity="max_cosine",
    )
    assert len(find_examples(source, SPLIT)) == 3
    assert len(find_examples(source, SPLIT, count=20)) == 9


def test_without_one_side_there_is_nothing_to_find():
    source = embeddings(np.ones((9, 3)))
    without = Embeddings("test", None, None, source.caption_ids, source.captions, "cosine")
    assert find_examples(without, SPLIT) == []
