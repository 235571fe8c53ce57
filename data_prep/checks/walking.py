"""Walks once through a prepared split: columns for the checks, images decoded, records hashed."""

import collections
import concurrent.futures
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.image_check import BadImageError, checked_image
from data_prep.building.split_hash import SplitHash
from data_prep.checks.columns import Columns, image_names

# Images of one round of the decoding threads: with photographs of 100 kB about 13 MB.
_BLOCK = 128


@dataclasses.dataclass
class Walked:
    """One split after the walk.

    Attributes:
      columns: what the checks need.
      hash: of the records that were read.
      bad_images: reason -> number of images that cannot be used.
      first_bad: reason -> id of the first of them.
      unreadable: why the walk stopped before the end, "" if it did not.
    """

    columns: Columns
    hash: str = ""
    bad_images: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_bad: dict[str, str] = dataclasses.field(default_factory=dict)
    unreadable: str = ""

    def add_problem(self, problem: str, example: Mapping[str, Any]) -> None:
        """Counts an image that cannot be used, if there is a problem."""
        if problem:
            self.bad_images[problem] += 1
            self.first_bad.setdefault(problem, str(example.get("image_id", "of unknown id")))


def walk(builder: tfds.core.DatasetBuilder, split: str, *, check_images: bool = True) -> Walked:
    """Reads a whole split in blocks.

    Args:
      builder: of a prepared dataset.
      split: its name.
      check_images: whether images are decoded. Decoding 3.3 million takes an hour or two.
    """
    features = dict(builder.info.features.items())
    walked = Walked(Columns(features))
    split_hash = SplitHash(features)
    images = image_names(features) if check_images else []
    blocks = _blocks(builder, split)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        while True:
            try:
                block = next(blocks, None)
            except Exception as error:  # what readers of damaged shards raise is of every kind
                read = walked.columns.records
                walked.unreadable = f"after {read:,} records: {type(error).__name__}: {error}"
                break
            if block is None:
                break
            for example in block:
                walked.columns.add(example)
                split_hash.add(example)
            for name in images:
                encoded = (example[name] for example in block)
                for example, problem in zip(block, threads.map(_problem, encoded), strict=True):
                    walked.add_problem(problem, example)
    walked.hash = split_hash.hexdigest()
    return walked


def _blocks(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[list[dict[str, Any]]]:
    features = builder.info.features.items()
    encoded = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in encoded} or None
    source = builder.as_data_source(split, decoders=decoders)
    for start in range(0, len(source), _BLOCK):
        yield source.__getitems__(list(range(start, min(start + _BLOCK, len(source)))))


def _problem(image: bytes | np.ndarray) -> str:
    """Why an image cannot be used, "" if it can."""
    if isinstance(image, np.ndarray):
        return "" if np.isfinite(image).all() else "not finite"
    try:
        converted = checked_image(image).converted
    except BadImageError as error:
        return error.reason
    return f"not converted: {converted}" if converted else ""
