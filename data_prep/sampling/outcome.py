"""What is written of a sample: files of pairs, and what they were made from."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from data_prep.reading.rated_files import file_name, format_rows
from data_prep.sampling.groups import Groups
from data_prep.sampling.sample import METHODS


def file_contents(split: str, groups: Groups, sampled: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Files of pairs that are to be rated, one per task.

    Args:
      split: of the groups.
      groups: of the captions.
      sampled: sampling method -> int [P, 2] by position.

    Returns:
      File name -> content.
    """
    ids = {"caption": groups.caption_ids, "image": groups.image_ids}
    by_task: dict[str, list[tuple[np.ndarray, str]]] = {}
    for method, pairs in sampled.items():
        task, kinds = METHODS[method]
        named = np.stack([ids[k][side] for k, side in zip(kinds, pairs.T, strict=True)], axis=1)
        by_task.setdefault(task, []).append((named, method))
    return {
        file_name(task, split): format_rows(
            task,
            np.concatenate([named for named, _ in parts]),
            np.repeat([method for _, method in parts], [len(named) for named, _ in parts]),
        )
        for task, parts in by_task.items()
    }


def hash_files(paths: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Kind -> path of a file -> SHA-256 of its bytes."""
    hashes: dict[str, dict[str, str]] = {}
    for kind, each in paths.items():
        for path in each:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            hashes.setdefault(kind, {})[path] = digest
    return hashes
