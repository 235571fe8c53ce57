"""Preprocessing and text encoders shared by released image-text models."""

from collections.abc import Mapping
from typing import Any

from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, Table
from xmodal.pretrained.published_weights import PublishedTower
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

IMAGES = {"size": 224, "eval_transform": "torchvision", "eval_crop": 0.875}
"""The central square after resizing the shorter side to 256; the encoder normalizes pixels."""
SENTENCES = {
    "tokenizer": "nltk",
    "lower_case": True,
    "unknown": "token",
    "special_tokens": "sentence",
}
"""NLTK's words between `<start>` and `<end>`, with unknown words as `<unk>`."""


def regions(
    inputs: int,
    head: Mapping[str, Any],
    table: Table,
    count: int = 36,
    projection: Mapping[str, Any] | None = None,
) -> PublishedTower:
    """Returns the tower of the features of regions that are stored with a dataset.

    Args:
      inputs: width of the features.
      head: its section.
      table: the names of its arrays.
      count: regions of an image.
      projection: its section.
    """
    encoder = {"name": "precomputed", "features": (count, inputs)}
    return PublishedTower(Description(encoder, head, {"size": 0}, projection=projection), table)


def sentences(
    source: WeightSource,
    words: tuple[Mapping[str, Any], Table],
    head: Mapping[str, Any],
    table: Table | None = None,
    projection: Mapping[str, Any] | None = None,
) -> PublishedTower:
    """Returns the tower of a table of word vectors, with the vocabulary of the source.

    Args:
      source: the weights.
      words: result of `word_encoder`.
      head: its section.
      table: the names of the arrays of the head.
      projection: its section.
    """
    encoder, layers = words
    files = words_of(source, encoder["vocab_size"])
    description = Description(encoder, head, SENTENCES, files, projection)
    return PublishedTower(description, {**layers, **(table or {})})


def word_encoder(
    arrays: Arrays,
    start: str,
    *,
    table: str = "embed",
    recurrent: str = "rnn",
    cell: str = "gru",
    **options: Any,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the section of a table of word vectors with one recurrent layer, and its table.

    Args:
      arrays: arrays of a source, with `table` and `recurrent`.
      start: start of their names.
      table: name of the word vectors.
      recurrent: name of the layer.
      cell: "gru" or "lstm".
      **options: further keywords of the encoder.
    """
    rows, words = arrays[f"{start}{table}.weight"].shape
    _, width = arrays[f"{start}{recurrent}.weight_hh_l0"].shape
    encoder = {
        "name": "rnn",
        "cell": cell,
        "vocab_size": rows,
        "embedding_width": words,
        "width": width,
        "layers": 1,
        "bidirectional": f"{start}{recurrent}.weight_hh_l0_reverse" in arrays,
        **options,
    }
    return encoder, {
        "encoder/table": f"{start}{table}.weight",
        "encoder/recurrent": f"{start}{recurrent}",
    }
