"""Checks that the compared numbers of several evaluations use the same labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.apps.analysis.agreement.model_table import load_object
from xmodal.core.errors import UserError

_FACTS = "boards.json"  # The facts of all boards, in the folder of an evaluation.


def check_labels(paths: Sequence[str]) -> tuple[str, ...]:
    """Checks with `boards.json` that the boards of all folders have the same labels.

    Tables of models do not identify the labels of their numbers, so they are not checked.

    Args:
      paths: see `load_models`.

    Returns:
      A sentence on folders without `boards.json`, if any.

    Raises:
      UserError: the labels of a board differ between two folders, or a file cannot be used.
    """
    seen: dict[str, tuple[str, str]] = {}
    unknown = []
    for path in paths:
        folder = epath.Path(path)
        if not folder.is_dir():
            continue
        if not (folder / _FACTS).exists():
            unknown.append(path)
            continue
        for board, labels in _read_hashes(folder / _FACTS).items():
            first, where = seen.setdefault(board, (labels, path))
            if labels != first:
                raise UserError(
                    f"The labels of board {board} differ: {first} in {where} against {labels} in "
                    f"{path}; evaluate both models with the same annotations and split, and on "
                    "the same items."
                )
    if not unknown:
        return ()
    return (f"Not known to rest on the same labels, without boards.json: {', '.join(unknown)}.",)


def find_same(folder: epath.Path, others: Mapping[str, epath.Path]) -> list[str]:
    """Returns the names of the evaluations on the labels and records of the one in a folder."""
    ours = load_object(folder / _FACTS)
    return [name for name, other in others.items() if _are_same(ours, load_object(other / _FACTS))]


def _are_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two evaluations have a board in common, and no difference in one."""
    shared = [(ours[board], theirs[board]) for board in ours if board in theirs]
    return bool(shared) and all(
        one.get("label_hash") == other.get("label_hash")
        and all(other.get("records", {}).get(k, v) == v for k, v in one.get("records", {}).items())
        for one, other in shared
    )


def _read_hashes(path: epath.Path) -> dict[str, str]:
    """Board -> hash of its labels."""
    hashes = {}
    for board, facts in load_object(path).items():
        labels = facts.get("label_hash") if isinstance(facts, dict) else None
        if not isinstance(labels, str):
            raise UserError(
                f"{path} has no label_hash for board {board}: evaluate again, or use the file "
                "that the evaluation wrote."
            )
        hashes[board] = labels
    return hashes
