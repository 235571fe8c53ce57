"""Reads and writes the config, records and metrics of a run, and lists its checkpoints."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import orbax.checkpoint as ocp
from etils import epath

from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.files import absolute, as_numbers, format_json, read_json, write_file
from xmodal.data.text.tokenizer_files import FILES, vocabulary_file
from xmodal.train.sections import BestCheckpointConfig

# Items of a checkpoint.
ITEMS = ("params", "model_state", "opt_state")

_BACKUP = "copy it from a backup."
_FOLDERS = ("data_dir", "manual_dir", "ratings_dir")

Records = dict[str, Any]
"""What a run trains on: `train`, the hash of the training split by its name and version;
`examples`, the examples of an epoch; `devices`, their number."""


def check_path(run_dir: str) -> None:
    """Raises an error if Orbax, which reads paths as patterns, could not save checkpoints."""
    path = os.fspath(absolute(run_dir))
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
        section = each.get("data") or {}
        for key in _FOLDERS:
            if section.get(key):
                section[key] = os.fspath(absolute(section[key]))
    if vocabulary is not None:
        file = vocabulary_file(vocabulary)
        config.data.text.vocabulary = file.name
        write_file(folder / file.name, file.content)
    path, text = folder / "config.json", f"{config.to_json_best_effort(indent=2)}\n"
    if (saved := steps(run_dir)) and path.exists() and path.read_text() != text:
        kept = folder / f"config-{saved[-1]}.json"
        # If a config changes several times at one step, only the first one had been in use.
        if not kept.exists():
            write_file(kept, path.read_bytes())
    # Written last, so that a reader who finds it also finds the vocabulary.
    write_file(path, text)


def load_run(run_dir: str) -> ml_collections.ConfigDict:
    """Returns the config of a run; it names the vocabulary in the run's folder."""
    folder = epath.Path(run_dir)
    path = folder / "config.json"
    if not path.exists():
        raise UserError(
            f"{run_dir!r} is not a run of xmodal.main: {path} is missing. Use the folder that was "
            "printed as the run's workdir; before its first step, a run has no config."
        )
    config = ml_collections.ConfigDict(read_json(path, _BACKUP))
    if config.data.text is not None:
        own = [folder / name for name in FILES if (folder / name).exists()]
        if own:
            config.data.text.vocabulary = os.fspath(own[0])
        elif name := config.data.text.get("vocabulary"):  # Never a file of another folder.
            raise UserError(f"{folder / name}, the run's vocabulary, is missing: {_BACKUP}")
    return config


def save_records(run_dir: str, records: Records) -> None:
    """Writes `RUN_DIR/records.json` on process 0."""
    _save(run_dir, "records.json", records)


def load_records(run_dir: str) -> Records:
    """Returns what `save_records` wrote; empty for a run without them."""
    return _load(run_dir, "records.json")


def save_training_items(run_dir: str, images: Sequence[int], captions: Sequence[str]) -> None:
    """Writes `RUN_DIR/training_items.json`: hashes of the images trained on, and their captions."""
    _save(run_dir, "training_items.json", {"images": images, "captions": captions})


def load_training_items(run_dir: str) -> dict[str, list[Any]]:
    """Returns what `save_training_items` wrote; empty for a run on a published dataset."""
    return _load(run_dir, "training_items.json")


def save_losses(run_dir: str, losses: Mapping[int, float]) -> None:
    """Writes `RUN_DIR/losses.json` on process 0: the reported training losses by step."""
    _save(run_dir, "losses.json", losses)


def load_losses(run_dir: str) -> dict[int, float]:
    """Returns what `save_losses` wrote; empty for a run that has not saved any state."""
    return {int(step): loss for step, loss in _load(run_dir, "losses.json").items()}


def save_evaluated(run_dir: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
    """Writes `RUN_DIR/evaluated.json` on process 0: the metrics of all evaluated steps."""
    _save(run_dir, "evaluated.json", metrics)


def load_evaluated(run_dir: str) -> dict[int, dict[str, float]]:
    """Returns the metrics of all evaluated steps up to the newest checkpoint, NaN where undefined.

    Steps whose checkpoints were removed since are among them.
    """
    last = max(steps(run_dir), default=-1)
    return {
        int(step): as_numbers(metrics)
        for step, metrics in _load(run_dir, "evaluated.json").items()
        if int(step) <= last
    }


def _save(run_dir: str, name: str, content: Mapping[Any, Any]) -> None:
    if jax.process_index() == 0:
        write_file(epath.Path(run_dir) / name, format_json(content))


def _load(run_dir: str, name: str) -> dict[str, Any]:
    path = epath.Path(run_dir) / name
    return read_json(path, _BACKUP) if path.exists() else {}


def load_metrics(run_dir: str, step: int) -> dict[str, float]:
    """Returns the metrics of a checkpoint, NaN where undefined; empty if it was not evaluated."""
    return load_evaluated(run_dir).get(step, {})


def steps(run_dir: str) -> list[int]:
    """Steps of complete checkpoints in ascending order; empty if there are none yet."""
    folder = checkpoints_folder(run_dir)
    return sorted(ocp.utils.checkpoint_steps(folder)) if folder.exists() else []


def best_step(run_dir: str) -> int:
    """Returns the best step by `config.best_checkpoint`; the later one if several are equal."""
    section = load_run(run_dir).best_checkpoint.to_dict()
    rule = read(BestCheckpointConfig, "config.best_checkpoint", section)
    best = best_of(rule, load_evaluated(run_dir), steps(run_dir))
    if best is None:
        raise UserError(f"No checkpoint of {run_dir} has {rule.metric!r}; use --step=latest.")
    return best


def best_of(
    best_checkpoint: BestCheckpointConfig,
    evaluated: Mapping[int, Mapping[str, float]],
    saved: Sequence[int],
) -> int | None:
    """Returns the best of the saved steps, the later one if several are equal; None without one."""
    ranks = {step: best_checkpoint.rank(evaluated.get(step, {})) for step in saved}
    return max((step for step in saved if ranks[step]), key=lambda s: (ranks[s], s), default=None)


def resolve_step(run_dir: str, step: int | str) -> int:
    """Turns `latest`, `best` or a number (or its string) into a step that the run has saved."""
    saved = steps(run_dir)
    if not saved:
        load_run(run_dir)
        raise UserError(f"{run_dir} has no checkpoint yet.")
    if step == "latest":
        return saved[-1]
    if step == "best":
        return best_step(run_dir)
    if str(step) not in map(str, saved):
        raise UserError(
            f"{run_dir} has no checkpoint of step {step}; it has {saved}; give one of these, "
            "latest or best."
        )
    return int(step)


def frozen_folder(run_dir: str) -> epath.Path:
    """Returns the folder of parameters that never change."""
    return absolute(run_dir) / "frozen"


def step_folder(run_dir: str, step: int) -> epath.Path:
    """Returns the folder of one checkpoint."""
    return checkpoints_folder(run_dir) / str(step)


def checkpoints_folder(run_dir: str) -> epath.Path:
    """Returns the folder of all checkpoints."""
    return absolute(run_dir) / "checkpoints"
