"""Records that a run reads: the hashes of its splits, in `RUN_DIR/records.json`."""

import json
from collections.abc import Mapping

import jax
from etils import epath

from xmodal import data
from xmodal.atomic import replacing
from xmodal.config import UserError
from xmodal.training.run import RunConfig

Hashes = dict[str, str]


def check_records(run_dir: str, settings: RunConfig) -> dict[str, Hashes]:
    """Compares the records that a run would learn from with those it was started with.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      settings: of the run; its dataset is prepared.

    Returns:
      `train` -> the hashes of the training split, see `data.split_hashes`.

    Raises:
      UserError: the records have changed.
    """
    found = data.split_hashes(settings.data, settings.train_split)
    before = load_records(run_dir).get("train", {})
    for name, digits in found.items():
        known = before.get(name, data.UNKNOWN_HASH)
        if digits != known and data.UNKNOWN_HASH not in (digits, known):
            raise UserError(
                f"{run_dir} was started with other records of {name}: their hash was "
                f"{known[:16]} and is {digits[:16]} now. Set config.data.data_dir to the "
                "dataset it was started with, or give another --workdir."
            )
    return {"train": found}


def save_records(run_dir: str, records: Mapping[str, Hashes]) -> None:
    """Writes `RUN_DIR/records.json` on process 0."""
    if jax.process_index() > 0:
        return
    with replacing(_path(run_dir)) as file:
        file.write(f"{json.dumps(records, indent=2)}\n".encode())


def load_records(run_dir: str) -> dict[str, Hashes]:
    """Returns the hashes that `save_records` wrote; empty for a run without them."""
    path = _path(run_dir)
    return json.loads(path.read_text()) if path.exists() else {}


def _path(run_dir: str) -> epath.Path:
    return epath.Path(run_dir) / "records.json"
