"""A split with unsorted ids, and its embeddings."""

import numpy as np

from tests.evals.tiny_split import TinySplit
from xmodal.evals import read_options
from xmodal.evals.scores.sources import Embeddings

MODALITIES = ("image", "text")


def options_of(**section):
    (options,) = read_options({"x": section}).values()
    return options


def make_split(records=40, captions=1, seed=0, **fields):
    """Records with unsorted ids."""
    generator = np.random.default_rng(seed)
    image_ids = generator.permutation(max(1000, records))[:records]
    return TinySplit(
        image_ids=image_ids,
        caption_ids=generator.permutation(9000)[: captions * records],
        caption_image_ids=np.repeat(image_ids, captions),
        ratings={},
        **fields,
    )


def make_source(split, seed=1, **fields):
    """Embeddings with captions close to their images, and items in a different order."""
    generator = np.random.default_rng(seed)
    images = generator.normal(size=(len(split.image_ids), 6)).astype(np.float32)
    row = {int(image): i for i, image in enumerate(split.image_ids)}
    owner = np.array([row[int(image)] for image in split.caption_image_ids])
    captions = images[owner] + 2.5 * generator.normal(size=(len(owner), 6)).astype(np.float32)
    at, text_at = generator.permutation(len(images)), generator.permutation(len(captions))
    return Embeddings(
        "here",
        split.image_ids[at],
        images[at],
        split.caption_ids[text_at],
        captions[text_at],
        "cosine",
        **fields,
    )


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


def vector_of(source, kind, item):
    ids, vectors = (
        (source.image_ids, source.images)
        if kind == "image"
        else (source.caption_ids, source.captions)
    )
    return vectors[list(ids).index(item)].astype(np.float64)
