"""A split of images with classes, and a model that embeds images near the center of their class."""

import dataclasses

import numpy as np

from tests.evals.evaluators.random_vectors import MODALITIES, options_of
from tests.evals.tiny_split import TinySplit
from xmodal.evals import Embeddings, make_evaluator
from xmodal.evals.scores.sources import ModelAdapter, with_similarity

NAMES = ("dog", "cat", "bird")
WIDTH = 5


@dataclasses.dataclass
class LabeledSplit(TinySplit):
    """Images with classes, without captions; `train` is another split."""

    train: TinySplit | None = None

    def beside(self, split):
        assert split == "train"
        return self.train


def make_split(count, seed, **fields):
    generator = np.random.default_rng(seed)
    ids = generator.permutation(1000)[:count]
    labels = generator.integers(0, len(NAMES), count)
    labels[: len(NAMES)] = range(len(NAMES))
    none = np.zeros(0, int)
    return LabeledSplit(
        name="animals",
        image_ids=ids,
        caption_ids=none,
        caption_image_ids=none,
        ratings={},
        labels={"label": labels},
        label_names={"label": list(NAMES)},
        **fields,
    )


class Clusters(ModelAdapter):
    """Images near the center of their class, in another order, and texts that name a class."""

    place, embeds = "clusters", frozenset(MODALITIES)

    def __init__(self, noise=0.8, classes=3):
        self._centers = np.random.default_rng(5).normal(size=(classes, WIDTH))
        self._noise, self.asked = noise, []

    def items(self, split, *, similarity=None, batch_size=256):
        generator = np.random.default_rng(len(split.image_ids))
        labels = split.labels["label"]
        images = self._centers[labels] + self._noise * generator.normal(size=(len(labels), WIDTH))
        at = generator.permutation(len(labels))
        found = Embeddings(
            self.place, split.image_ids[at], images[at].astype(np.float32), None, None, "dot"
        )
        return with_similarity(found, similarity)

    def embed(self, modality, given, *, similarity=None):
        self.asked += given
        rows = []
        for text in given:
            (name,) = (each for each in NAMES if each in text)
            # Prompts differ, in length and direction.
            generator = np.random.default_rng(len(text))
            rows.append(self._centers[NAMES.index(name)] + 0.3 * generator.normal(size=WIDTH))
        return np.array(rows, np.float32)


def evaluate(split, adapter, **section):
    (found,) = make_evaluator("x", options_of(**section), split, MODALITIES).run(adapter)
    return found
