"""Lowers a model to functions for all platforms and writes a bundle."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from etils import epath
from jax import export

from xmodal.api.bundles.card import PLATFORMS, WEIGHTS, Card, ImageCard, TextCard, write_card
from xmodal.core.atomic import new_folder
from xmodal.core.errors import UserError
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import vocabulary_file
from xmodal.similarity import Similarity

Weights = Mapping[str, np.ndarray]
# (side, arrays of the side by their flat names, columns) -> `vectors` [B, D] or [B, K, D],
# `log_sigma` [B, D] of a probabilistic side, and `tokens` [B, T, W] with `mask` [B, T] if the
# similarity compares them.
EmbedSide = Callable[[str, Any, Mapping[str, jax.Array]], dict[str, jax.Array]]

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
# Libraries required by tokenizers that use them.
_TOKENIZER_LIBRARIES = {
    "ptb": ("nltk",),
    "nltk": ("nltk",),
    "wordpiece": ("tokenizers",),
    "bpe": ("ftfy", "tokenizers"),
    "sentencepiece": ("sentencepiece",),
    "tokenizer_json": ("tokenizers",),
}
_IMAGE_LIBRARIES = ("pillow", "simplejpeg")


@dataclasses.dataclass(frozen=True)
class Contents:
    """All that a bundle is made of.

    Attributes:
      embed: pure function of a side.
      weights: side -> arrays by their flat names, `params/encoder/...`; `similarity` -> arrays of
        its module.
      similarity: similarity of the model.
      parameters: learned numbers of the similarity.
      images: preprocessing, and the shape of an image as the encoder takes it; None without.
      texts: preprocessing and the vocabulary; None without a text side.
      source: see `Card`.
    """

    embed: EmbedSide
    weights: Mapping[str, Weights]
    similarity: Similarity
    parameters: Mapping[str, float]
    images: tuple[ImageConfig, tuple[int, ...]] | None
    texts: tuple[TextConfig, Sequence[str]] | None
    source: Mapping[str, Any]


def write_bundle(
    folder: str | os.PathLike,
    model: Contents,
    platforms: Sequence[str] = PLATFORMS,
    check: Callable[[epath.Path, Card], None] = lambda folder, card: None,
) -> Card:
    """Writes a bundle, which gets its name when it is complete and has passed a check.

    Args:
      folder: folder to create.
      model: contents of the bundle.
      platforms: platforms that the functions are lowered for.
      check: raises an error if the finished folder is wrong.

    Raises:
      UserError: a side cannot be lowered for the platforms.
    """
    image, image_files = _lower_images(model, platforms)
    text, text_files = _lower_texts(model, platforms)
    arrays = {
        f"{side}/{name}": np.ascontiguousarray(array)
        for side, weights in model.weights.items()
        for name, array in weights.items()
    }
    card = Card(
        made_with=_versions(),
        source=model.source,
        platforms=tuple(platforms),
        requires=_libraries(image, text),
        # The functions return only the compared field.
        similarity={
            **dataclasses.asdict(model.similarity.config),
            "field": "vector",
            **model.similarity.options,
        },
        parameters=model.parameters,
        image=image,
        text=text,
    )
    contents = {WEIGHTS: safetensors.numpy.save(arrays), **image_files, **text_files}
    with new_folder(folder) as temporary:
        write_card(temporary, card, contents)
        check(temporary, card)
    return card


def _lower_images(
    model: Contents, platforms: Sequence[str]
) -> tuple[ImageCard | None, dict[str, bytes]]:
    if model.images is None:
        return None, {}
    config, shape = model.images
    dtype = "uint8" if config.size else "float32"
    function, width, embeddings = _lower(model, "image", {"image": (shape, dtype)}, platforms)
    preprocessing = dataclasses.replace(config, augment=None)
    card = ImageCard(width, embeddings, preprocessing, shape, dtype)
    return card, {card.function: function}


def _lower_texts(
    model: Contents, platforms: Sequence[str]
) -> tuple[TextCard | None, dict[str, bytes]]:
    if model.texts is None:
        return None, {}
    config, vocabulary = model.texts
    longest = config.max_length
    shorter = () if config.attend_to_padding else _LENGTHS
    lengths = (*(length for length in shorter if length < longest), longest)
    lowered = {}
    for length in lengths:
        columns = dict.fromkeys(("text_ids", "text_mask"), ((length,), "int32"))
        lowered[length] = _lower(model, "text", columns, platforms)
    _, width, embeddings = lowered[longest]
    preprocessing = dataclasses.replace(config, augment=None, vocabulary="")
    card = TextCard(width, embeddings, preprocessing, lengths)
    files = {card.function(length): function for length, (function, _, _) in lowered.items()}
    file = vocabulary_file(vocabulary)
    files[file.name] = file.content
    return card, files


def _lower(
    model: Contents,
    side: str,
    columns: Mapping[str, tuple[tuple[int, ...], str]],
    platforms: Sequence[str],
) -> tuple[bytes, int, int]:
    """Returns the function of one side for any number of items, D and K (0 for [N, D])."""
    (items,) = export.symbolic_shape("items")
    inputs = {
        name: jax.ShapeDtypeStruct((items, *shape), dtype)
        for name, (shape, dtype) in columns.items()
    }
    weights = {
        name: jax.ShapeDtypeStruct(array.shape, array.dtype)
        for name, array in model.weights[side].items()
    }
    function = jax.jit(lambda arrays, columns: model.embed(side, arrays, columns))
    try:
        with _without_paths():
            lowered = export.export(function, platforms=platforms)(weights, inputs)
    except (NotImplementedError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"The {side} side cannot be lowered for {', '.join(platforms)} ({reason}); give other "
            "--platforms."
        ) from error
    shapes = jax.tree.unflatten(lowered.out_tree, lowered.out_avals)
    _, *several, width = shapes["vectors"].shape
    return bytes(lowered.serialize()), width, several[0] if several else 0


@contextlib.contextmanager
def _without_paths() -> Iterator[None]:
    """Leaves the paths of source files on this machine out of lowered functions."""
    # JAX's flags are attributes that type checkers do not see.
    config: Any = jax.config
    before = config.jax_traceback_in_locations_limit
    config.update("jax_traceback_in_locations_limit", 0)
    try:
        yield
    finally:
        config.update("jax_traceback_in_locations_limit", before)


def _versions() -> dict[str, str]:
    from xmodal.core.version import __version__

    return {"xmodal": __version__, "jax": jax.__version__}


def _libraries(image: ImageCard | None, text: TextCard | None) -> tuple[str, ...]:
    libraries = ["jax", "numpy", "safetensors"]
    if image is not None and image.preprocessing.size:
        libraries += _IMAGE_LIBRARIES
    if text is not None:
        libraries += _TOKENIZER_LIBRARIES.get(text.preprocessing.tokenizer, ())
    return tuple(libraries)
