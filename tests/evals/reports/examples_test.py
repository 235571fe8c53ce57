"""Captions in the report and the images they retrieve."""

import dataclasses

import numpy as np

from tests.evals.tiny_split import TinySplit
from xmodal.evals import Embeddings, evaluate_source, make_evaluator, read_options
from xmodal.evals.evaluators.boards import labels_of_split
from xmodal.evals.reports.examples import find_examples
from xmodal.evals.scores.score_rows import MatrixScores

SPLIT = TinySplit(
    image_ids=np.array([30, 10, 20]),
    caption_ids=np.arange(100, 109),
    caption_image_ids=np.repeat([10, 20, 30], 3),
    ratings={},
)


def find(scores, split=SPLIT, **options):
    return find_examples(
        MatrixScores(np.float32(scores)), labels_of_split(split, ()), split, **options
    )


def test_a_line_per_caption():
    scores = np.zeros((9, 3))
    scores[1] = [0.0, 1.0, 0.0]  # of image 10, at position 1: finds it
    scores[4] = [0.9, 0.5, 0.2]  # of image 20, at position 2: finds image 30, its own is third
    scores[7] = [0.0, 0.9, 0.0]  # of image 30, at position 0: finds image 10, its own ties
    assert find(scores) == [
        '- "caption 101" finds its own image first.',
        '- "caption 104" finds the image of "caption 106" first, its own at rank 3 of 3.',
        '- "caption 107" finds the image of "caption 100" first, its own at rank 2 of 3.',
    ]
    assert len(find(scores, count=20)) == 9


def test_an_image_without_captions_and_a_caption_without_image():
    split = TinySplit(
        image_ids=np.array([30, 99, 20]), caption_ids=SPLIT.caption_ids,
        caption_image_ids=SPLIT.caption_image_ids, ratings={}, partial="3 of 4 images",
    )  # fmt: skip
    scores = np.tile(np.float32([0, 1, 0]), (9, 1))
    assert find(scores, split) == [
        '- "caption 101" finds another first.',
        '- "caption 104" finds another first, its own at rank 3 of 3.',
        '- "caption 107" finds another first, its own at rank 2 of 3.',
    ]


def test_without_one_side_there_is_nothing_to_find():
    (options,) = read_options({"shapes": {"type": "boards"}}).values()
    evaluator = make_evaluator("shapes", options, SPLIT, ("text",))
    vectors = np.eye(9, dtype=np.float32)
    source = Embeddings("test", None, None, SPLIT.caption_ids, vectors, "cosine")
    assert evaluate_source(evaluator, source, name="model", split=SPLIT).examples == []


def test_images_are_named_by_their_files():
    files = np.array(["c.jpg", "pets/a.jpg", "b.jpg"], object)
    split = dataclasses.replace(SPLIT, labels={"picture": files})
    scores = np.tile(np.float32([0, 1, 0]), (9, 1))
    found = find(scores, split)[1]
    assert found.startswith('- "caption 104" finds pets/a.jpg, the image of "caption 100" first,')
