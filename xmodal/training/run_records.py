"""Which records a run reads: the hashes of its splits, in `RUN_DIR/records.json`."""

import json
from collections.abc import Mapping

import jax
import ml_collections
from etils import epath

from xmodal import data
from xmodal.config import UserError

Hashes = dict[str, dict[str, str]]


def check_records(run_dir: str, config: ml_collections.ConfigDict) -> Hashes:
    """Compares the records that a run would read with those it was started with.

    Args:
      run_dir: the run's folder, where there may be nothing yet.
      config: of the run; its datasets are prepared.

    Returns:
      Role of a split (`train`, `validation`, `test`) -> its hashes, see `data.split_hashes`.

    Raises:
      UserError: records that training reads are others now.
    """
    found = {role: data.split_hashes(config.data, split) for role, split in config.splits.items()}
    before = load_records(run_dir)
    for role in ("train", "validation"):
        for name, digits in found[role].items():
            known = before.get(role, {}).get(name, data.UNKNOWN_HASH)
            if digits != known and data.UNKNOWN_HASH not in (digits, known):
                raise UserError(
                    f"{run_dir} was started with other records of {name}: their hash was "
                    f"{known[:16]} and is {digits[:16]} now. Set config.data.data_dir to the "
                    "dataset it was started with, or give another --workdir."
                )
    return found


def save_records(run_dir: str, records: Mapping[str, Mapping[str, str]]) -> None:
    """Writes `RUN_DIR/records.json` on process 0, by rename so that it is never half there."""
    if jax.process_index() > 0:
        return
    path = _path(run_dir)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(records, indent=2) + "\n")
    temporary.replace(path)


def load_records(run_dir: str) -> Hashes:
    """Reads what `save_records` wrote; empty for a run without it."""
    path = _path(run_dir)
    return json.loads(path.read_text()) if path.exists() else {}


def _path(run_dir: str) -> epath.Path:
    return epath.Path(run_dir) / "records.json"
