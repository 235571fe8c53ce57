"""CLIP and SigLIP as they were published: converted on first use, then found in a cache."""

import hashlib
import os
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import sha256_of
from xmodal.pretrained import converters
from xmodal.pretrained.clip_layouts import find_layout
from xmodal.pretrained.converters import convert
from xmodal.pretrained.vocabularies import TOKENIZER_FILES
from xmodal.pretrained.weight_files import SMALL_FILES, load_source

# Of the converted folders; to be raised if the same source would be converted differently.
_VERSION = b"3"
# Weights for other libraries in folders of transformers, which are not read.
_IGNORED = (".h5", ".msgpack", ".onnx", ".md", ".ot")


class NotPublishedError(UserError):
    """A path has no CLIP or SigLIP, or none that can be read."""


def convert_once(source: str | os.PathLike) -> epath.Path:
    """Returns the folder of a published CLIP or SigLIP in our format.

    It is converted at the first call and after any change of its files, into
    `~/.cache/xmodal/converted/HASH`.

    Args:
      source: weights as `load_source` reads them, with their config and tokenizer beside them.

    Raises:
      NotPublishedError: it is neither model.
      UserError: it is one of them, but its files do not fit together, or leave open how to convert
        it.
    """
    path = epath.Path(source)
    return converters.convert_once(_hash_of(path), "model.json", lambda: _convert(path))


def _convert(path: epath.Path) -> Any:
    kind = _kind_of(path)
    try:
        return convert(kind, path)
    except UserError as error:
        if "--" not in str(error):
            raise
        raise UserError(
            f"{error} `xmodal convert --model={kind}` has these flags; load the folder that it "
            "makes."
        ) from error


def _kind_of(path: epath.Path) -> str:
    try:
        layout = find_layout(load_source(path).arrays)
    except UserError as error:
        raise NotPublishedError(f"{path}: {error}") from error
    return "siglip" if layout.has("image/head/probe") else "clip"


def _hash_of(path: epath.Path) -> str:
    """Returns a hash of the files that a conversion may read."""
    files = list(path.iterdir()) if path.is_dir() else [path]
    if not path.is_dir():
        files += [path.parent / name for name in {*SMALL_FILES, *TOKENIZER_FILES}]
    digest = hashlib.sha256(_VERSION)
    for file in sorted(files, key=os.fspath):  # Two may have the same name.
        if file.is_file() and not file.name.endswith(_IGNORED):
            digest.update(f"{file.name} {sha256_of(file)}\n".encode())
    return digest.hexdigest()[:32]
