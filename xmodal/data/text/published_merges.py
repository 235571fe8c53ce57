"""CLIP's published merges: the archive of openai/CLIP, also from a package that ships it."""

import gzip
import hashlib
import importlib.metadata

from etils import epath

from xmodal.core.errors import UserError

ARCHIVE = "bpe_simple_vocab_16e6.txt.gz"
"""Name of the file in openai/CLIP, and in the packages open-clip-torch and clip-anytorch."""
_SHA256 = "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a"
# The archive has 262,144 merges; 512 bytes and 2 special tokens make these a vocabulary of 49,408.
_MERGES = 49_408 - 512 - 2
_PREFIX = "pip:"


def is_packaged(vocabulary: str) -> bool:
    """Returns whether a config names an installed package instead of a file."""
    return vocabulary.startswith(_PREFIX)


def find_packaged(vocabulary: str) -> epath.Path:
    """Returns the path of the merges in an installed package, which is not imported.

    Args:
      vocabulary: "pip:" and the name of the package on PyPI.

    Raises:
      UserError: the package is not installed, or has no merges.
    """
    package = vocabulary.removeprefix(_PREFIX)
    where = f"config.data.text.vocabulary={vocabulary!r}"
    try:
        files = importlib.metadata.files(package) or []
    except (importlib.metadata.PackageNotFoundError, ValueError) as error:
        raise UserError(
            f"{where} names a package that is not installed: pip install 'xmodal[clip]', or, "
            f"without torch, pip install --no-deps {package or 'open-clip-torch'}."
        ) from error
    paths = [epath.Path(str(file.locate())) for file in files if file.name == ARCHIVE]
    if not paths:
        raise UserError(f"{where}: the package has no {ARCHIVE}; open-clip-torch has one.")
    return paths[0]


def unpack_merges(content: bytes, where: str) -> bytes:
    """Returns the content of the published archive as that of a merges.txt.

    Args:
      content: the archive.
      where: its origin, for errors.

    Raises:
      UserError: the archive is not the published one.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256:
        raise UserError(
            f"{where} is not the {ARCHIVE} of openai/CLIP: its SHA-256 is {found}, not {_SHA256}."
        )
    lines = gzip.decompress(content).split(b"\n")[1 : 1 + _MERGES]
    return b"\n".join([b"#version: 0.2", *lines, b""])
