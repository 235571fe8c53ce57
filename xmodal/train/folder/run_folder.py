"""Reads and writes the config, records and tokenizer of a run, and lists its checkpoints."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmodal.core import buckets
from xmodal.core.atomic import write_atomically
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json, read_numbers
from xmodal.core.result_files import finite_or_none
from xmodal.data.text.tokenizer_files import FILES, vocabulary_file
from xmodal.train.folder.folder_lock import LOCK
from xmodal.train.sections import SelectConfig

# Items of a checkpoint, besides its metrics.
ITEMS = ("params", "model_state", "opt_state")

_EVALUATED = "evaluated.json"
_FOLDERS = ("data_dir", "manual_dir", "ratings_dir")

Records = dict[str, Any]


def check_path(run_dir: str) -> None:
    """Raises an error if Orbax, which reads paths as patterns, could not save or find checkpoints.

    Raises:
      UserError: the path has a character of a pattern.
    """
    path = os.fspath(buckets.absolute(run_dir))
    if found := sorted(set(path) & set("*?[]\\")):
        raise UserError(
            f"{path} has {' and '.join(found)} in its path, which the folder of a run cannot have; "
            "rename it, or use another folder."
        )


def save_config(
    run_dir: str, config: ml_collections.ConfigDict, vocabulary: Sequence[str] | None = None
) -> None:
    """Writes `RUN_DIR/config.json` on process 0; keeps another one as `config-STEP.json`.

    Folders of data become absolute, so that the run is evaluated from any folder.

    Args:
      run_dir: the run's folder.
      config: config with everything filled in.
      vocabulary: tokens of the texts, whose file, see `tokenizer_files`, is written to the run's
        folder, where the saved config names it.
    """
    if jax.process_index() > 0:
        return
    folder = epath.Path(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    config = config.copy_and_resolve_references()
    for each in (config, *config.get("evals", {}).values()):
        _make_absolute(each.get("data") or {})
    if vocabulary is not None:
        file = vocabulary_file(vocabulary)
        config.data.text.vocabulary = file.name
        write_atomically(folder / file.name, file.content)
    path, text = folder / "config.json", f"{config.to_json_best_effort(indent=2)}\n"
    if (saved := steps(run_dir)) and path.exists() and path.read_text() != text:
        kept = folder / f"config-{saved[-1]}.json"
        # If a config changes several times at one step, only the first one had been in use.
        if not kept.exists():
            write_atomically(kept, path.read_bytes())
    # Written last, so that a reader who finds it also finds the vocabulary.
    write_atomically(path, text)


def _make_absolute(section: ml_collections.ConfigDict | dict[str, Any]) -> None:
    """Makes the folders that a section names absolute."""
    for key in _FOLDERS:
        if folder := section.get(key):
            section[key] = os.fspath(buckets.absolute(folder))


def save_records(run_dir: str, records: Records) -> None:
    """Writes `RUN_DIR/records.json` on process 0."""
    if jax.process_index() > 0:
        return
    path = epath.Path(run_dir) / "records.json"
    write_atomically(path, f"{json.dumps(records, indent=2)}\n")


def load_records(run_dir: str) -> Records:
    """Returns what `save_records` wrote; empty for a run without them."""
    path = epath.Path(run_dir) / "records.json"
    remedy = "copy it from a backup, or start over with another --workdir."
    return read_json(path, remedy) if path.exists() else {}


def hash_vocabulary(vocabulary: Sequence[str]) -> str:
    """Returns the hash of a vocabulary file, as stored in `records.json`."""
    return vocabulary_file(vocabulary).sha256


def load_run(run_dir: str) -> ml_collections.ConfigDict:
    """Returns the config of a run; it names the vocabulary in the run's folder.

    Raises:
      UserError: the folder is not a run.
    """
    check_path(run_dir)
    folder = epath.Path(run_dir)
    path = folder / "config.json"
    if not path.exists():
        remedy = "Use the folder that was printed as the run's workdir."
        if steps(run_dir):
            remedy = "Its checkpoints are there; copy the file from a backup."
        elif (folder / LOCK).exists():
            remedy = "The run has not reached its first step; rerun the command that started it."
        raise UserError(f"{run_dir!r} is not a run of xmodal.main: {path} is missing. {remedy}")
    content = read_json(path, "copy it from a backup.")
    data = content.get("data")
    text = data.get("text", "") if isinstance(data, dict) else ""
    if not isinstance(text, dict | None):
        raise UserError(f"{path} is damaged: it has no data.text: copy it from a backup.")
    config = ml_collections.ConfigDict(content)
    if config.data.text is None:
        return config
    own = next((folder / name for name in FILES if (folder / name).exists()), None)
    if own is not None:
        _check_vocabulary(run_dir, own)
        config.data.text.vocabulary = os.fspath(own)
    elif name := config.data.text.get("vocabulary"):  # Never a file of another folder.
        raise UserError(
            f"{folder / name}, the run's vocabulary, is missing: copy it from a backup."
        )
    else:
        text = (
            "%s has no %s (it was made by an earlier version); the vocabulary is read from the "
            "dataset as it is now."
        )
        logging.log_first_n(logging.WARNING, text, 1, run_dir, "vocab.txt")
    return config


def _check_vocabulary(run_dir: str, path: epath.Path) -> None:
    expected = load_records(run_dir).get("vocabulary")  # Earlier versions saved none.
    if expected and hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise UserError(
            f"{path} has different words from those the run was trained on: copy it from a backup."
        )


def steps(run_dir: str) -> list[int]:
    """Steps of complete checkpoints in ascending order; empty if there are none yet."""
    folder = checkpoints_folder(run_dir)
    return sorted(ocp.utils.checkpoint_steps(folder)) if folder.exists() else []


def best_step(run_dir: str) -> int:
    """Returns the best step according to `config.select`; the later one if several are equal.

    Raises:
      UserError: no checkpoint was evaluated.
    """
    select = _load_select(run_dir)
    ranks = {step: select.rank(load_metrics(run_dir, step)) for step in steps(run_dir)}
    best = max(ranks, key=lambda step: (ranks[step], step), default=None)
    if best is None or not ranks[best]:
        raise UserError(f"No checkpoint of {run_dir} has {select.metric!r}; use --step=latest.")
    return best


def explain_best_step(run_dir: str) -> str:
    """Returns what selected the best step, see `SelectConfig.explain`."""
    return _load_select(run_dir).explain(load_evaluated(run_dir))[0]


def save_evaluated(run_dir: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
    """Writes `RUN_DIR/evaluated.json`: the metrics that selected the best step, by step."""
    content = f"{json.dumps(finite_or_none(metrics))}\n"
    write_atomically(epath.Path(run_dir) / _EVALUATED, content)


def load_evaluated(run_dir: str) -> dict[int, dict[str, float]]:
    """Returns the metrics by which evaluated steps were compared, up to the newest checkpoint.

    Steps whose checkpoints were removed since are among them.
    """
    path, saved = epath.Path(run_dir) / _EVALUATED, steps(run_dir)
    content = read_json(path, "remove it.") if path.exists() else {}
    earlier = {
        int(step): {tag: math.nan if x is None else x for tag, x in metrics.items()}
        for step, metrics in content.items()
        if int(step) < max(saved, default=0)
    }
    return earlier | {step: load_metrics(run_dir, step) for step in saved}


def _load_select(run_dir: str) -> SelectConfig:
    select = load_run(run_dir).get("select")
    if not isinstance(select, ml_collections.ConfigDict):
        raise UserError(f"{run_dir}/config.json has no select: copy it from a backup.")
    return read(SelectConfig, "config.select", select.to_dict())


def resolve_step(run_dir: str, step: int | str) -> int:
    """Turns `latest`, `best` or a number (or its string) into a step that the run has saved.

    Raises:
      UserError: the run has no such checkpoint, or none at all.
    """
    saved = steps(run_dir)
    if not saved:
        load_run(run_dir)
        raise UserError(f"{run_dir} has no checkpoint yet.")
    if step == "latest":
        return saved[-1]
    if step == "best":
        return best_step(run_dir)
    if not str(step).isdecimal():
        raise UserError(f"Step {step!r} of {run_dir}: give one of {saved}, latest or best.")
    check_step(run_dir, int(step))
    return int(step)


def check_step(run_dir: str, step: int) -> None:
    """Raises an error if a step is not saved.

    Raises:
      UserError: lists the saved steps.
    """
    saved = steps(run_dir)
    if step not in saved:
        raise UserError(f"{run_dir} has no checkpoint of step {step}; it has {saved}.")


def load_metrics(run_dir: str, step: int) -> dict[str, float]:
    """Returns the metrics of a checkpoint, NaN where undefined; empty if it was not evaluated.

    Raises:
      UserError: they are damaged or missing.
    """
    path = step_folder(run_dir, step) / "metrics" / "metrics"
    remedy = "use another step, or remove this one."
    if path.exists():
        return read_numbers(path, remedy)
    if path.parent.exists():  # Another step would be the best in silence.
        raise UserError(f"{path} is missing: the checkpoint is damaged: {remedy}")
    return {}


def frozen_folder(run_dir: str) -> epath.Path:
    """Returns the folder of parameters that never change."""
    return buckets.absolute(run_dir) / "frozen"


def step_folder(run_dir: str, step: int) -> epath.Path:
    """Returns the folder of one checkpoint."""
    return checkpoints_folder(run_dir) / str(step)


def checkpoints_folder(run_dir: str) -> epath.Path:
    """Returns the folder of all checkpoints."""
    return buckets.absolute(run_dir) / "checkpoints"
