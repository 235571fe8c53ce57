"""Hash and number of the records that a run trains on, in `RUN_DIR/records.json`."""

from absl import logging

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import Records


def check_records(run_dir: str, found: Records, *, allow_changes: bool = False) -> Records:
    """Compares the records that a run would train on with those it was started with.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      found: `train`, the hash of the training split by its name and version, see
        `data.split_hashes`; `examples`, the examples of an epoch.
      allow_changes: whether to continue with other records.

    Returns:
      The records to save: those found, with hashes that only an earlier start knew.
    """
    before = run_folder.load_records(run_dir)
    if not before:
        return found
    if _are_equal(before, found):
        known = {name: x for name, x in before["train"].items() if x != data.UNKNOWN_HASH}
        # A hash that is known stays: a dataset without one may come in between.
        return found | {"train": found["train"] | known}
    described = f"{_describe(before)} -> {_describe(found)}"
    if not allow_changes:
        raise UserError(
            f"{run_dir} was started with other records: {described}. Set config.data.data_dir to "
            "the dataset it was started with, add --allow_changes=records to use these, or "
            "use another --workdir."
        )
    logging.warning("%s resumes with other records: %s.", run_dir, described)
    return found


def check_steps_left(run_dir: str, records: Records, total_steps: int) -> None:
    """Raises an error if a run has no steps left that could train on its new records."""
    before, steps = run_folder.load_records(run_dir), run_folder.steps(run_dir)
    if before and steps and steps[-1] >= total_steps and not _are_equal(before, records):
        raise UserError(
            f"{run_dir} has trained its {total_steps:,} steps on {_describe(before)} and has none "
            "left for other records: raise config.total_steps, or use another --workdir."
        )


def _are_equal(before: Records, found: Records) -> bool:
    hashes = [(digits, found["train"].get(name)) for name, digits in before["train"].items()]
    return before["examples"] == found["examples"] and all(
        one == other or (other and data.UNKNOWN_HASH in (one, other)) for one, other in hashes
    )


def _describe(records: Records) -> str:
    hashes = ", ".join(f"{name} {digits[:16]}" for name, digits in records["train"].items())
    return f"{hashes} ({records['examples']:,} examples)"


def training_hashes(run_dir: str) -> dict[str, str]:
    """Returns the hash of the records that a run trains on, by name; empty if it has none."""
    return run_folder.load_records(run_dir).get("train", {})
