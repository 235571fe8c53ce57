"""Captions in the report and the images they retrieve."""

import numpy as np

from tests.evals.tiny_split import TinySplit
from xmodal.evals.evaluators.benchmarks import labels_of_split
from xmodal.evals.reports.example_page import find_examples
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
