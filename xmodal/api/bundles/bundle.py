"""Reads and writes a bundle; nothing in it is run before the hashes of all files are checked."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

import jax
import safetensors.numpy
from etils import epath
from jax import export
from jax.sharding import Mesh

from xmodal.api.bundles import CARD
from xmodal.api.model import Model
from xmodal.core.config import read, setting
from xmodal.core.errors import UserError
from xmodal.core.files import check_files, format_json, read_json, sha256_of
from xmodal.core.mesh import replicated
from xmodal.core.tree_paths import unflatten
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import FILES, parse_file
from xmodal.data.text.tokenizers import file_name, make_tokenizer
from xmodal.similarity import Embedding, Similarity, make_similarity

WEIGHTS = "weights.safetensors"
FORMAT = {"format": "xmodal bundle", "version": 2}
# What JAX calls the platform of a device -> what functions are lowered for.
_LOWERED = {"gpu": ("cuda", "rocm")}


@dataclasses.dataclass(frozen=True)
class ImageCard:
    """The image tower.

    Attributes:
      preprocessing: preprocessing of the images.
      shape: shape of an input image: [S, S, 3], or [F] or [R, F] for features.
      dtype: dtype of an input image, `uint8` or `float32`.
    """

    preprocessing: ImageConfig
    shape: tuple[int, ...]
    dtype: str = setting(one_of=("uint8", "float32"))


@dataclasses.dataclass(frozen=True)
class TextCard:
    """The text tower.

    Attributes:
      preprocessing: preprocessing of the texts; the tokenizer's file is `tokenizers.file_name`.
      lengths: T of padded texts that there are functions of, ascending; file `text-T`.
    """

    preprocessing: TextConfig
    lengths: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Card:
    """A bundle, apart from its functions and arrays.

    Attributes:
      made_with: library -> version, `xmodal` and `jax`.
      source: its origin: `kind`, `name`, and of a run `step`, `metrics` and `datasets`.
      similarity: as `config.model.similarity`, of the arrays that the functions return.
      platforms: platforms of its functions: `cpu`, `cuda`, `rocm`, `tpu`.
      parameters: learned numbers of the similarity; arrays of its module are among the weights.
      image: None where there is no such modality.
      text: the same.
    """

    made_with: Mapping[str, Any]
    source: Mapping[str, Any]
    similarity: Mapping[str, Any]
    platforms: tuple[str, ...] = ()
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    image: ImageCard | None = None
    text: TextCard | None = None

    def files(self) -> list[str]:
        """Returns the names of all files beside the card."""
        names = [WEIGHTS] + ["image"] * (self.image is not None)
        if self.text is not None:
            names.append(file_name(self.text.preprocessing.tokenizer))
            names += [f"text-{length}" for length in self.text.lengths]
        return names


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
        """The available modalities, of "image" and "text"."""
        return tuple(
            modality for modality in ("image", "text") if getattr(self.card, modality) is not None
        )

    def embed(
        self, modality: str, params: Any, model_state: Any, inputs: Mapping[str, jax.Array]
    ) -> tuple[Embedding, Any]:
        """Embeds items; see `models.DualEncoder.embed`."""
        if modality == "image":
            assert self.card.image is not None
            name, inputs = "image", {"image": inputs["image"].astype(self.card.image.dtype)}
        else:
            name = f"text-{inputs['text_ids'].shape[1]}"
        found = self.functions[name].call(params[modality], dict(inputs))
        extras = {name: found[name] for name in ("tokens", "mask") if name in found}
        return Embedding(found["vectors"], found.get("log_sigma"), extras), model_state


def write_card(folder: epath.Path, card: Card, contents: Mapping[str, bytes]) -> None:
    """Writes the files of a bundle into a folder that is there, the card last."""
    files = {}
    for name in card.files():
        (folder / name).write_bytes(contents[name])
        files[name] = sha256_of(folder / name)
    # As JSON has it: undefined metrics are null.
    content = format_json({**FORMAT, **dataclasses.asdict(card), "files": files})
    (folder / CARD).write_text(content, encoding="utf-8")


def open_bundle(folder: str | os.PathLike, mesh: Mesh) -> Model:
    """Returns the model of a bundle whose files are complete and unchanged."""
    root = epath.Path(folder)
    content = read_json(root / CARD, "export the model again.")
    if (found := {key: content.pop(key, None) for key in FORMAT}) != FORMAT:
        raise UserError(
            f"{folder} is {found}, but this xmodal reads {FORMAT}: export the model again, or "
            "install the xmodal that made it."
        )
    check_files(root, content.pop("files"), "copy the bundle again.")
    card = read(Card, f"{CARD} of {folder}", content)
    contents = {name: (root / name).read_bytes() for name in card.files()}
    if not runs_here(card.platforms):
        raise UserError(
            f"{folder} was made for {', '.join(card.platforms)}, not for "
            f"{jax.local_devices()[0].platform}: export the model again with other --platforms."
        )
    try:
        functions = {
            name: export.deserialize(bytearray(content))
            for name, content in contents.items()
            if name not in (WEIGHTS, *FILES)
        }
    except Exception as error:  # The files have their hashes, so only the format can be wrong.
        raise UserError(
            f"{folder} was made with jax {card.made_with.get('jax')}, but this is jax "
            f"{jax.__version__}, which cannot read it ({error}): export the model again."
        ) from error
    similarity = make_similarity(card.similarity, "similarity of the bundle")
    encoders = BundledEncoders(card, functions, similarity)
    params: dict[str, Any] = {modality: {} for modality in (*encoders.towers, "similarity")}
    for path, array in safetensors.numpy.load(contents[WEIGHTS]).items():
        modality, _, rest = path.partition("/")
        params[modality][rest] = array
    params["similarity"] = unflatten(params["similarity"]) | dict(card.parameters)
    tokenizer = None
    if card.text is not None:
        name = file_name(card.text.preprocessing.tokenizer)
        tokens = parse_file(name, contents[name], f"{name} of {folder}")
        tokenizer = make_tokenizer(card.text.preprocessing, tokens)
    return Model(
        os.fspath(folder),
        encoders,
        jax.device_put(params, replicated(mesh)),
        {},
        mesh=mesh,
        images=card.image.preprocessing if card.image else None,
        tokenizer=tokenizer,
        lengths=card.text.lengths if card.text else (),
    )


def runs_here(platforms: Collection[str]) -> bool:
    """Returns whether functions for some platforms run on the devices of this process."""
    platform = jax.local_devices()[0].platform
    return bool(set(_LOWERED.get(platform, (platform,))) & set(platforms))
