"""Opens a bundle; nothing in it is run before the hashes of all files are checked."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

import jax
import safetensors.numpy
from etils import epath
from jax import export

from xmodal.api.bundles.card import CARD, WEIGHTS, Card, read_bundle
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import unflatten
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.tokenizer_files import FILES, parse_file
from xmodal.data.text.tokenizers import Tokenizer, file_name, make_tokenizer
from xmodal.similarity import Embedding, Similarity, make_similarity
from xmodal.similarity.similarity import finite_number
from xmodal.train.tree import flatten

# What JAX calls the platform of a device -> what functions are lowered for.
_LOWERED = {"gpu": ("cuda", "rocm")}


@dataclasses.dataclass(frozen=True)
class BundledEncoders:
    """The functions of a bundle with the interface of `models.DualEncoder`.

    Attributes:
      card: card of the bundle.
      functions: functions by file name.
      similarity: similarity of the embeddings.
    """

    card: Card
    functions: Mapping[str, export.Exported]
    similarity: Similarity

    @property
    def towers(self) -> tuple[str, ...]:
        """The available sides, of "image" and "text"."""
        return tuple(side for side in ("image", "text") if getattr(self.card, side) is not None)

    def embed(
        self, side: str, params: Any, model_state: Any, inputs: Mapping[str, jax.Array]
    ) -> tuple[Embedding, Any]:
        """Embeds items; see `models.DualEncoder.embed`.

        Raises:
          UserError: images of another shape than the function takes.
        """
        if side == "image":
            name, inputs = self._image_function(inputs)
        else:
            assert self.card.text is not None
            name = self.card.text.function(inputs["text_ids"].shape[1])
        found = self.functions[name].call(params[side], dict(inputs))
        extras = {name: found[name] for name in ("tokens", "mask") if name in found}
        return Embedding(found["vectors"], found.get("log_sigma"), extras), model_state

    def _image_function(self, inputs: Mapping[str, jax.Array]) -> tuple[str, dict[str, jax.Array]]:
        card, images = self.card.image, inputs["image"]
        assert card is not None
        if images.shape[1:] != card.shape:
            raise UserError(
                f"This bundle embeds images {list(card.shape)}, not of the shape "
                f"{list(images.shape[1:])}."
            )
        return card.function, {"image": images.astype(card.dtype)}


@dataclasses.dataclass(frozen=True)
class Bundle:
    """An open bundle.

    Attributes:
      encoders: embed.
      params: side -> arrays by their flat names; `similarity` -> numbers, and the nested dict of
        its module's arrays.
      images: preprocessing of the images, None without an image side.
      tokenizer: tokenizer of the texts, None without a text side.
      lengths: T that texts may be padded to.
    """

    encoders: BundledEncoders
    params: Mapping[str, Mapping[str, Any]]
    images: ImageConfig | None
    tokenizer: Tokenizer | None
    lengths: tuple[int, ...]


def open_bundle(folder: str | os.PathLike) -> Bundle:
    """Returns a bundle whose files are complete and unchanged.

    Raises:
      UserError: they are not, or it was made for other platforms or with a newer JAX.
    """
    card, contents = read_bundle(folder)
    if not runs_here(card.platforms):
        raise UserError(
            f"{folder} was made for {', '.join(card.platforms)}, not for "
            f"{jax.local_devices()[0].platform}: export the model again with other --platforms."
        )
    functions = {
        name: _read_function(folder, card, content)
        for name, content in contents.items()
        if name not in (WEIGHTS, *FILES)
    }
    similarity = make_similarity(card.similarity, "similarity of the bundle")
    encoders = BundledEncoders(card, functions, similarity)
    params = _read_weights(epath.Path(folder) / WEIGHTS, encoders, contents[WEIGHTS])
    tokenizer = None
    if card.text is not None:
        name = file_name(card.text.preprocessing.tokenizer)
        tokens = parse_file(name, contents[name], f"{name} of {folder}")
        tokenizer = make_tokenizer(card.text.preprocessing, tokens)
    return Bundle(
        encoders,
        params,
        card.image.preprocessing if card.image else None,
        tokenizer,
        card.text.lengths if card.text else (),
    )


def runs_here(platforms: Collection[str]) -> bool:
    """Returns whether functions for some platforms run on the devices of this process."""
    platform = jax.local_devices()[0].platform
    return bool(set(_LOWERED.get(platform, (platform,))) & set(platforms))


def _read_weights(
    path: epath.Path, encoders: BundledEncoders, content: bytes
) -> dict[str, dict[str, Any]]:
    """Returns `Bundle.params`, the arguments of the functions and of the similarity."""
    params: dict[str, dict[str, Any]] = {side: {} for side in (*encoders.towers, "similarity")}
    try:
        for name, array in safetensors.numpy.load(content).items():
            side, _, rest = name.partition("/")
            params[side][rest] = array
        params["similarity"] = unflatten(params["similarity"])
        for name, function in encoders.functions.items():
            (taken, _), _ = jax.tree.unflatten(function.in_tree, function.in_avals)
            side = "image" if name == "image" else "text"
            _check_taken(f"the function {name!r}", taken, params[side])
        _check_module(encoders, params["similarity"])
    except (safetensors.SafetensorError, AttributeError, LookupError, ValueError) as error:
        raise UserError(
            f"{path} does not hold the arrays of the bundle ({error!s:.200}): export the model "
            "again."
        ) from error
    numbers = {
        name: finite_number(f"{name} of {CARD} of {path.parent}", value)
        for name, value in encoders.card.parameters.items()
    }
    similarity = params["similarity"] | numbers
    encoders.similarity.select_parameters(similarity)  # Raises an error if one is missing.
    return params | {"similarity": similarity}


def _check_module(encoders: BundledEncoders, arrays: Mapping[str, Any]) -> None:
    """Raises ValueError if the similarity's module has other arrays than it starts with."""
    module, taken = encoders.similarity.module, {}
    if module is not None:
        names = sorted(encoders.functions)  # "image", "text-16", "text-8", or those of one side.
        sides = [_one_item(encoders.functions[name]) for name in (names[0], names[-1])]
        taken = flatten(jax.eval_shape(module.init, jax.random.key(0), *sides))
    _check_taken(f"the similarity {encoders.similarity.name!r}", taken, flatten(arrays))


def _one_item(function: export.Exported) -> Embedding:
    """Returns the shapes of a function's results for one item."""
    found = jax.tree.unflatten(function.out_tree, function.out_avals)
    one: dict[str, Any] = {
        name: jax.ShapeDtypeStruct((1, *array.shape[1:]), array.dtype)
        for name, array in found.items()
    }
    return Embedding(one.pop("vectors"), one.pop("log_sigma", None), one)


def _check_taken(taker: str, taken: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    needed, found = ({key: x.shape for key, x in each.items()} for each in (taken, arrays))
    wrong = sorted(key for key in needed | found if needed.get(key) != found.get(key))
    if wrong:
        raise ValueError(
            f"{wrong[0]} is {found.get(wrong[0])}, but {taker} takes {needed.get(wrong[0])}"
        )


def _read_function(folder: str | os.PathLike, card: Card, content: bytes) -> export.Exported:
    try:
        return export.deserialize(bytearray(content))
    except Exception as error:  # The content has its hash, so only the format can be wrong.
        raise UserError(
            f"{folder} was made with jax {card.made_with.get('jax')}, but this is jax "
            f"{jax.__version__}, which cannot read it ({error}): export the model again."
        ) from error
