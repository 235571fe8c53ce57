"""Checks that the compared numbers of several evaluations use the same labels."""

from collections.abc import Sequence

from etils import epath

from xmodal.apps.analysis.agreement.model_table import load_object
from xmodal.base.config import UserError


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
        if not (folder / "boards.json").exists():
            unknown.append(path)
            continue
        for board, labels in _read_hashes(folder / "boards.json").items():
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
