"""Converters for published weights: towers, and models with both towers."""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from absl import logging
from etils import epath

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import cache_folder, sha256_of
from xmodal.core.hub import locate
from xmodal.pretrained.clip_layouts import find_layout
from xmodal.pretrained.conversion_report import Report, take_all
from xmodal.pretrained.folder import save_folder
from xmodal.pretrained.layer_rules import Arrays
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.variants import CONVERTERS, TOWERS
from xmodal.pretrained.vocabularies import TOKENIZER_FILES
from xmodal.pretrained.weight_files import SMALL_FILES, load_source
from xmodal.pretrained.word_vectors import load_word_table

# Raise it if the same source would be converted differently: converted folders are cached.
_VERSION = b"3"
# Weights for other libraries in folders of transformers, which are not read.
_IGNORED = (".h5", ".msgpack", ".onnx", ".md", ".ot")


def convert(
    name: str,
    path: str | os.PathLike,
    variant: str = "",
    vocabulary: str = "",
    *,
    concepts: str = "",
    allow_missing: Collection[str] = (),
    allow_unexpected: Collection[str] = (),
) -> tuple[dict[str, np.ndarray], Any, Report]:
    """Converts published weights to those of a tower or a model.

    Args:
      name: key of `CONVERTERS`.
      path: see `weight_files.load_source`; of word vectors, see `word_vectors.load_word_vectors`;
        or `hf://OWNER/NAME`, see `hub.locate`.
      variant: one of the converter's, if it has any; "" for that of the
        source's options, or the first of a model.
      vocabulary: vocabulary or tokenizer's file; "" for the one in the source. Of a table of words,
        the only words to keep.
      concepts: concept file, see `data.text.concept_graph`, for a model that needs one.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.

    Returns:
      The arrays by our flat names; the `Description` of a tower, or the `ModelDescription`; and the
      report.
    """
    converter = lookup("xmodal convert", name, CONVERTERS)
    known = converter.variants
    if variant not in known and (variant or (known and name in TOWERS)):
        listed = ", ".join(known) or "none"
        raise UserError(f"--variant={variant!r} is not a variant of {name}; known: {listed}.")
    path = locate(os.fspath(path))
    source = load_word_table(path, vocabulary) if name == "words" else load_source(path)
    try:
        published = converter.describe(
            dataclasses.replace(source, variant=variant, vocabulary=vocabulary, concepts=concepts)
        )
        arrays, report = take_arrays(published, source.arrays)
        report.check(allow_missing, (*published.unused, *allow_unexpected))
    except UserError as error:
        raise UserError(f"{source.path}: {error}") from error
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{source.path} is not a {name} as it was published: it has no {error}."
        ) from error
    numbers = {name: float(arrays.pop(f"similarity/{name}")) for name in published.parameters}
    return arrays, published.describe(numbers), report


def convert_once(key: str, card: str, make: Callable[[], Any]) -> epath.Path:
    """Returns a folder of converted weights in the cache, which is made at the first call.

    Args:
      key: name of the folder; it stands for the source and the converter.
      card: the file that a complete folder has, `tower.json` or `model.json`.
      make: returns the result of `convert`.
    """
    folder = epath.Path(cache_folder("converted", key))
    if not (folder / card).exists():
        logging.info("Converting published weights once, into %s.", folder)
        made = make()
        try:
            save_folder(folder, *made)
        except (UserError, OSError):
            if not (folder / card).exists():  # Another process may have just made it.
                raise
    return folder


def convert_published(source: str | os.PathLike) -> epath.Path:
    """Returns the folder of a published CLIP or SigLIP in our format.

    It is converted at the first call and after any change of its files, into
    `~/.cache/xmodal/converted/HASH`.

    Args:
      source: weights as `load_source` reads them, with their config and tokenizer beside them.
    """
    path = epath.Path(source)

    def make() -> Any:
        try:
            layout = find_layout(load_source(path).arrays)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        return convert("clip" if layout.is_clip else "siglip", path)

    return convert_once(_hash_of(path), "model.json", make)


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


def take_arrays(published: Published, arrays: Arrays) -> tuple[dict[str, np.ndarray], Report]:
    """Returns the arrays by our names, learned numbers as `similarity/NAME`, and the report."""
    arrays = arrays if published.arrays is None else published.arrays
    return take_all(arrays, published.find_arrays(arrays), published.notes)
