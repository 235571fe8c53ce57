"""Folders of converted towers.

weights.safetensors   our names -> float32 arrays: `params/encoder/...`, `batch_stats/encoder/...`
tower.json            `encoder`, `head` and `projection` as in a config, `preprocessing` of the
                      inputs
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
import safetensors
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import is_in_object_store, new_folder
from xmodal.data.text.tokenizer_files import FILES
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.weight_files import read_safetensors, write_safetensors

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

    def section(self) -> dict[str, Any]:
        """Returns the section of `config.model` that computes the published vectors.

        Without a published head, BERT uses the output at [CLS] and other encoders use the mean.
        """
        usual = {"name": "cls" if self.encoder["name"] == "bert" else "mean"}
        section = {"encoder": dict(self.encoder), "head": dict(self.head or usual)}
        if self.projection is not None:
            section["projection"] = dict(self.projection)
        return section


def model_section(
    towers: Mapping[str, Description],
    similarity: Mapping[str, Any],
    cross_encoder: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the section `config.model` of two towers, a similarity, perhaps a cross-encoder."""
    section: dict[str, Any] = {modality: tower.section() for modality, tower in towers.items()}
    section["similarity"] = dict(similarity)
    if cross_encoder is not None:
        section["cross_encoder"] = dict(cross_encoder)
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
    write_safetensors(folder / _WEIGHTS, arrays)
    for name, file in description.files.items():
        (folder / name).write_bytes(file)
    fields = ("encoder", "head", "projection", "preprocessing")
    content = {field: getattr(description, field) for field in fields}
    # Last, because on a bucket files appear one by one: without it the folder is not read.
    (folder / "tower.json").write_text(json.dumps(content, indent=2) + "\n")


def check_new(folder: str | os.PathLike) -> None:
    """Raises an error if a folder exists.

    Raises:
      UserError: the folder exists.
    """
    path = epath.Path(folder)
    if path.exists():
        raise UserError(f"{folder} exists already: give another --output, or remove it.")


def read_description(folder: str | os.PathLike) -> Description:
    """Returns the description of the tower in a folder.

    Raises:
      UserError: it is not a folder of `xmodal convert`, or a file is damaged.
    """
    root = epath.Path(folder)
    path = root / "tower.json"
    for needed in (path, root / _WEIGHTS):
        if not needed.exists():
            raise UserError(
                f"{folder} is not a converted tower: {needed} is missing. Make one with `xmodal "
                "convert`."
            )
    files = {name: (root / name).read_bytes() for name in FILES if (root / name).exists()}
    with damaged(path):
        card = json.loads(path.read_text())
        encoder, head, inputs = card["encoder"], card["head"], card["preprocessing"]
        return Description(encoder, head, inputs, files, card.get("projection"))


def check_weights(folder: str | os.PathLike) -> None:
    """Checks that the weights of a folder are complete, without reading them.

    Raises:
      UserError: their file is damaged or truncated.
    """
    path = epath.Path(folder) / _WEIGHTS
    if not is_in_object_store(path):
        with damaged(path), safetensors.safe_open(os.fspath(path), "numpy"):
            pass


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the arrays of a folder by their flat names.

    Raises:
      UserError: it is not a folder of `xmodal convert`, or a file is missing or damaged.
    """
    read_description(folder)
    return read_arrays(epath.Path(folder) / _WEIGHTS)


def read_arrays(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a safetensors file of a folder.

    Raises:
      UserError: it is damaged.
    """
    with damaged(path):
        return read_safetensors(path)


@contextlib.contextmanager
def damaged(path: epath.Path) -> Iterator[None]:
    """Turns errors of reading a file into a sentence."""
    try:
        yield
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): convert the weights again.") from error
