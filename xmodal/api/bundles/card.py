"""The card of a bundle, and the hashes of its files."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from etils import epath

from xmodal.core.config import read, setting
from xmodal.core.errors import UserError
from xmodal.core.result_files import format_json
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import file_name

CARD, WEIGHTS = "bundle.json", "weights.safetensors"
FORMAT, VERSION = "xmodal bundle", 1
# Of jax.export; a bundle is made for the first ones by default.
PLATFORMS = ("cpu", "cuda", "tpu")
KNOWN_PLATFORMS = (*PLATFORMS, "rocm")


@dataclasses.dataclass(frozen=True)
class ImageCard:
    """The image side.

    Attributes:
      width: D of its embeddings.
      embeddings: K of an item, 0 where an item has one vector [D].
      preprocessing: preprocessing of the images.
      shape: shape of an input image: [S, S, 3], or [F] or [R, F] for features.
      dtype: dtype of an input image, `uint8` or `float32`.
    """

    width: int
    embeddings: int
    preprocessing: ImageConfig
    shape: tuple[int, ...]
    dtype: str = setting(one_of=("uint8", "float32"))

    @property
    def function(self) -> str:
        """The file of the function."""
        return "image"


@dataclasses.dataclass(frozen=True)
class TextCard:
    """The text side.

    Attributes:
      width: D of its embeddings.
      embeddings: K of an item, 0 where an item has one vector [D].
      preprocessing: preprocessing of the texts; the tokenizer's file is `tokenizers.file_name`.
      lengths: T of padded texts that there are functions of, ascending; file `text-T`.
    """

    width: int
    embeddings: int
    preprocessing: TextConfig
    lengths: tuple[int, ...]

    def function(self, length: int) -> str:
        """Returns the file of the function of texts [N, length]."""
        return f"text-{length}"


@dataclasses.dataclass(frozen=True)
class Card:
    """A bundle, apart from its functions and arrays.

    Attributes:
      made_with: library -> version, `xmodal` and `jax`.
      source: its origin: `kind`, `name`, and of a run `step` and `metrics`.
      platforms: platforms of its functions: `cpu`, `cuda`, `rocm`, `tpu`.
      requires: names of the libraries that embedding takes.
      similarity: as `config.model.similarity`, of the arrays that the functions return.
      parameters: learned numbers of the similarity; arrays of its module are among the weights.
      image: None where there is no such side.
      text: the same.
    """

    made_with: Mapping[str, Any]
    source: Mapping[str, Any]
    platforms: tuple[str, ...]
    requires: tuple[str, ...]
    similarity: Mapping[str, Any]
    parameters: Mapping[str, float]
    image: ImageCard | None = None
    text: TextCard | None = None

    def files(self) -> list[str]:
        """Returns the names of all files beside the card."""
        names = [WEIGHTS]
        if self.image is not None:
            names.append(self.image.function)
        if self.text is not None:
            names.append(file_name(self.text.preprocessing.tokenizer))
            names += map(self.text.function, self.text.lengths)
        return names


def write_card(folder: epath.Path, card: Card, contents: Mapping[str, bytes]) -> None:
    """Writes the files of a bundle into a folder that is there, the card last."""
    for name in card.files():
        (folder / name).write_bytes(contents[name])
    files = {
        name: {"bytes": len(contents[name]), "sha256": hashlib.sha256(contents[name]).hexdigest()}
        for name in card.files()
    }
    content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(card), "files": files}
    # As JSON has it: tuples are lists, undefined metrics null.
    content = json.loads(format_json(content))
    content["sha256"] = _hash(content)
    (folder / CARD).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_bundle(folder: str | os.PathLike) -> tuple[Card, dict[str, bytes]]:
    """Returns the card of a bundle and the bytes of its files, all of them as they were written.

    Raises:
      UserError: it is not a bundle or has another version, or a file is missing, truncated or
        changed.
    """
    root = epath.Path(folder)
    if not (root / CARD).exists():
        raise UserError(
            f"{folder} is not a bundle: {CARD} is missing. Make one with `python -m xmodal export`."
        )
    content = _read_content(root)
    records = content.pop("files", {})
    card = read(Card, f"{CARD} of {folder}", content)
    if not isinstance(records, dict) or not all(map(_is_record, records.values())):
        raise UserError(_damaged(root / CARD))
    if set(records) != set(card.files()):
        raise UserError(f"{root / CARD} lists {sorted(records)} instead of {sorted(card.files())}.")
    return card, {name: _read_file(root / name, record) for name, record in records.items()}


def _read_content(root: epath.Path) -> dict[str, Any]:
    path = root / CARD
    try:
        content = parse_json_text(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(_damaged(path)) from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise UserError(f"{path} is not the card of an xmodal bundle.")
    version = content.pop("version", None)
    if version != VERSION:
        raise UserError(
            f"{root} is a bundle of version {version!r}, but this xmodal reads version {VERSION}: "
            "export the model again, or install the xmodal that made it."
        )
    expected = content.pop("sha256", None)
    if expected != _hash({"format": FORMAT, "version": VERSION, **content}):
        raise UserError(_damaged(path))
    return content


def _damaged(path: epath.Path) -> str:
    return f"{path} is damaged or was changed: export the model again."


def _is_record(record: Any) -> bool:
    kinds = {"bytes": int, "sha256": str}
    return isinstance(record, dict) and {name: type(x) for name, x in record.items()} == kinds


def _read_file(path: epath.Path, record: Mapping[str, Any]) -> bytes:
    if not path.exists():
        raise UserError(f"{path} is missing: the bundle is incomplete, copy it again.")
    content = path.read_bytes()
    if len(content) != record["bytes"]:
        raise UserError(
            f"{path} has {len(content):,} bytes instead of {record['bytes']:,}: copy it again."
        )
    if hashlib.sha256(content).hexdigest() != record["sha256"]:
        raise UserError(f"{path} was changed; its hash is not that of {CARD}: copy it again.")
    return content


def _hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
