"""Folders of converted towers.

weights.safetensors   our names -> float32 arrays: `params/encoder/...`, `batch_stats/encoder/...`
tower.json            `encoder`, `head` and `projection` as in a config, `preprocessing` of the
                      inputs; the checksum of the weights
report.txt            the use of every array of the source
vocab.txt             the vocabulary of a text tower, or another file of `tokenizer_files.FILES`
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from etils import epath

from xmodal.core.atomic import new_folder
from xmodal.core.buckets import is_on_bucket
from xmodal.core.checksums import check_files, sha256_of
from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.data.text.tokenizer_files import FILES
from xmodal.pretrained import array_files
from xmodal.pretrained.conversion_report import Report

_WEIGHTS = "weights.safetensors"


@dataclasses.dataclass(frozen=True)
class Description:
    """A tower, apart from its weights.

    Attributes:
      encoder: `name`, a key of `models.ENCODERS`, and its keywords.
      head: `name`, a key of `models.HEADS`, and its keywords; None if the weights were published
        without a head, so that any may follow.
      preprocessing: preprocessing of the inputs, as plain data.
      files: files that belong to the tower, by name (`vocab.txt`).
      projection: the projection as in a config, None for none.
    """

    encoder: Mapping[str, Any]
    head: Mapping[str, Any] | None
    preprocessing: Mapping[str, Any]
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    projection: Mapping[str, Any] | None = None

    def side(self) -> dict[str, Any]:
        """Returns the section of `config.model` that computes the published vectors.

        Without a published head, BERT uses the output at [CLS] and other encoders use the mean.
        """
        usual = {"name": "first" if self.encoder["name"] == "bert" else "mean"}
        side = {"encoder": dict(self.encoder), "head": dict(self.head or usual)}
        if self.projection is not None:
            side["projection"] = dict(self.projection)
        return side


def model_section(
    sides: Mapping[str, Description],
    similarity: Mapping[str, Any],
    pair_scorer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the section `config.model` of two towers, a similarity and perhaps a pair scorer."""
    section: dict[str, Any] = {side: tower.side() for side, tower in sides.items()}
    section["similarity"] = dict(similarity)
    if pair_scorer is not None:
        section["pair_scorer"] = dict(pair_scorer)
    return section


def save_tower(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    description: Description,
    report: Report,
) -> None:
    """Writes a folder, which appears under its name only when it is complete.

    Raises:
      UserError: the folder exists already.
    """
    target = epath.Path(folder)
    check_new(target)
    with new_folder(target) as temporary:
        (temporary / "report.txt").write_text(report.text())
        write_tower(temporary, arrays, description)


def write_tower(
    folder: epath.Path, arrays: Mapping[str, np.ndarray], description: Description
) -> None:
    """Writes the files of a tower, without a report, into an existing folder."""
    (folder / _WEIGHTS).write_bytes(safetensors.numpy.save(dict(arrays)))
    for name, file in description.files.items():
        (folder / name).write_bytes(file)
    fields = ("encoder", "head", "projection", "preprocessing")
    content = {field: getattr(description, field) for field in fields}
    content["checksums"] = {_WEIGHTS: sha256_of(folder / _WEIGHTS)}
    # Last, because on a bucket files appear one by one: without it the folder is not read.
    (folder / "tower.json").write_text(json.dumps(content, indent=2) + "\n")


def check_new(folder: str | os.PathLike) -> None:
    """Raises an error if a folder exists or cannot be created.

    Raises:
      UserError: the folder exists, or one of its parents is a file.
    """
    path = epath.Path(folder)
    if path.exists():
        raise UserError(f"{folder} exists already: give another --output, or remove it.")
    # A bucket has no folders that could be files.
    if not is_on_bucket(folder):
        parent = next(parent for parent in path.parents if parent.exists())
        if not parent.is_dir():
            raise UserError(f"{folder} cannot be made, {parent} is a file: give another --output.")


def read_description(folder: str | os.PathLike) -> Description:
    """Returns the description of the tower in a folder.

    Raises:
      UserError: it is not a folder of `xmodal convert`, or a file is damaged.
    """
    root = epath.Path(folder)
    path = root / "tower.json"
    if path.exists() and not (root / _WEIGHTS).exists():
        raise UserError(f"{folder} is incomplete: {_WEIGHTS} is missing.")
    if not path.exists():
        raise UserError(
            f"{folder} is not a converted tower: {path} is missing. Make one with `xmodal convert`."
        )
    with damage(path):
        content = parse_json_text(path.read_text())
        encoder, head = content["encoder"], content["head"]
        preprocessing = content["preprocessing"]
        encoder["name"]
    files = {name: (root / name).read_bytes() for name in FILES if (root / name).exists()}
    return Description(encoder, head, preprocessing, files, content.get("projection"))


@contextlib.contextmanager
def damage(path: epath.Path) -> Iterator[None]:
    """Reports truncated JSON or a missing field as damage to the file."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}): convert the weights again.") from error


@contextlib.contextmanager
def made_by_another(card: epath.Path) -> Iterator[None]:
    """Ignores the error of writing a folder that another process has just completed.

    `card` is the file that a complete folder has.
    """
    try:
        yield
    except (UserError, OSError):
        if not card.exists():
            raise


def check_weights(folder: str | os.PathLike) -> None:
    """Checks that the weights of a folder are complete, without reading them.

    Raises:
      UserError: their file is damaged or truncated.
    """
    array_files.check_safetensors(epath.Path(folder) / _WEIGHTS)


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the arrays of a folder by their flat names.

    Raises:
      UserError: it is not a folder of `xmodal convert`, or a file is missing or damaged.
    """
    read_description(folder)
    path = epath.Path(folder) / "tower.json"
    return read_checked(path, _WEIGHTS)


def read_checked(path: epath.Path, name: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a safetensors file, after a comparison with its checksum.

    Args:
      path: JSON file beside it, with `checksums` by name; earlier versions wrote none.
      name: its name.

    Raises:
      UserError: a file is damaged.
    """
    with damage(path):
        checksums = dict(parse_json_text(path.read_text()).get("checksums", {}))
    own = {each: digits for each, digits in checksums.items() if each == name}
    arrays = array_files.read_safetensors(path.parent / name)
    check_files(path.parent, own, "convert the weights again.")
    return arrays
