"""Scores given images with given texts by a model's cross-encoder."""

import os
from collections.abc import Callable, Sequence, Sized
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.tokenizers import Tokenizer
from xmodal.evals.scores.given_items import GivenItems
from xmodal.evals.scores.sources import Embeddings

# Pairs scored together; memory grows with its square, and large squares are kept in files.
_BLOCK = 1024


def score_given_pairs(
    name: str,
    embed: Callable[..., Embeddings] | None,
    images: Sequence[Any],
    texts: Sequence[str],
    config: ImageConfig | None,
    tokenizer: Tokenizer | None,
    *,
    upright: bool = True,
) -> np.ndarray:
    """Returns the score of image i with text i, float32 [N].

    An item of several pairs is encoded once per 1,024 pairs.

    Args:
      name: names the model in messages.
      embed: embeds items and returns the scores of their pairs; None without a cross-encoder.
      images: N images, as `GivenItems` takes them.
      texts: N texts.
      config: preprocessing of the images.
      tokenizer: tokenizer of the texts.
      upright: see `GivenItems`.

    Raises:
      UserError: the model has no cross-encoder, or there are not as many images as texts.
    """
    if embed is None:
        raise UserError(
            f"{name} has no cross-encoder; compare embeddings by `similarity`, and search without "
            "rerank."
        )
    if config is not None and config.tags:
        raise UserError(
            f"{name} reads the names of the objects of an image, which given images lack; evaluate "
            "it on a dataset with tags."
        )
    if _is_one(images) or _is_one(texts) or not len(images) == len(texts) > 0:
        raise UserError(
            "score_pairs takes as many images as texts, in two lists, not "
            f"{_count(images, 'image')} and {_count(texts, 'text')}."
        )
    if wrong := [each for each in texts if not isinstance(each, str)]:
        raise UserError(f"{wrong[0]!r} is not a string; pass only strings.")
    scores = np.empty(len(texts), np.float32)
    for start in range(0, len(texts), _BLOCK):
        block = slice(start, start + _BLOCK)
        (pictures, rows), (strings, columns) = _distinct(images[block]), _distinct(texts[block])
        given: Any = {"config": config, "tokenizer": tokenizer, "upright": upright}
        pairs = embed(GivenItems(images=pictures, texts=strings, **given)).pairs
        assert pairs is not None
        scores[block] = pairs.pairs(rows, columns)
    return scores


def _distinct(items: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """The items without repetitions, and the place of each among them, int [N].

    Paths, contents of files and texts are compared; of others, the same object is one item.
    """
    own = list(items)
    keys = [each if isinstance(each, str | bytes | os.PathLike) else id(each) for each in own]
    found = dict(zip(keys, own, strict=True))
    places = {key: place for place, key in enumerate(found)}
    return list(found.values()), np.array([places[key] for key in keys])


def _is_one(given: Any) -> bool:
    """Whether an image or a text was given in place of a list."""
    return isinstance(given, str | bytes) or not isinstance(given, Sized)


def _count(given: Any, noun: str) -> str:
    return f"the {noun} {given!r:.80}" if _is_one(given) else f"{len(given)} {noun}s"
