"""Changes to a run's config between two of its starts."""

import dataclasses
import difflib
import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from xmodal.core.config import flatten_section
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import ID_FIELDS
from xmodal.evals import read_options
from xmodal.train.folder import run_folder
from xmodal.train.folder.compute import read_starts
from xmodal.train.optimization.schedules import read_schedule
from xmodal.train.run_config import RunConfig, read_settings
from xmodal.train.tree import flatten

if TYPE_CHECKING:
    from xmodal.train.run import Run

ABSENT = "absent"
# What `--allow_changes` names besides paths of the config.
_OUTSIDE = ("records", "devices")
# No update depends on these; in encoders and losses they choose equivalent implementations.
_FREE = (
    r"(name|log_every|non_finite|select|checkpoint|sharding|tensorboard|profile)(\.|$)",
    r"frozen_features\.folder$",
    r"init_from\.published$",
    r"data\.(data_dir|manual_dir|ratings_dir|prefetch)$",
    # How a vocabulary is learned; the run already has its own.
    r"data\.text\.(vocabulary_size|min_count)$",
    r"model\.\w+\.encoder\.(remat|remat_policy|unroll|attention|depthwise|form)$",
    r"tasks\..+\.loss\.options\.(engine|chunk_size)$",
)
# The token ids of a text, which the weights depend on.
_IDS = rf"data\.text\.({'|'.join((*ID_FIELDS, 'vocabulary'))})$"


def check_changes(run_dir: str, settings: RunConfig, allowed: Collection[str] = ()) -> list[str]:
    """Raises an error if a config changes what or how an existing run learns.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      settings: settings of the run, with everything filled in.
      allowed: paths or sections of the config that may differ from those at the start of the run.

    Returns:
      The changes that were allowed, one string each.

    Raises:
      UserError: lists every path that differs with its two values; or an allowed path is unknown.
    """
    if not run_folder.steps(run_dir):
        return []
    before = read_settings(run_folder.load_run(run_dir))
    check_paths(allowed, [*_flat(before), *_flat(settings)])
    changed = differences(before, settings)
    lasting = [path for path in changed if re.match(_IDS, path)]
    refused = [path for path in changed if path in lasting or not is_allowed(path, allowed)]
    if refused:
        remedy = f"add --allow_changes={','.join(refused)} to use the new ones"
        if lasting:
            remedy = "start another run from its weights with --config.init_from.run"
        lines = [f"  {path}: {_arrow(changed[path])}\n" for path in refused]
        raise UserError(
            f"{run_dir} was started with another config:\n{''.join(lines)}"
            f"Set the values before the arrows, {remedy}, or use another --workdir."
        )
    return [f"{path}: {_arrow(values)}" for path, values in changed.items()]


def check_devices(run_dir: str, parts: "Run", allowed: Collection[str] = ()) -> list[str]:
    """Raises an error if another number of devices changes what a run learns.

    Batch normalization with `statistics='per_device'` normalizes the items of a device together.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      parts: parts of the run.
      allowed: see `check_changes`; "devices" allows another number.

    Returns:
      The change that was allowed, if there is one.

    Raises:
      UserError: gives both numbers of devices.
    """
    saved, now = run_folder.steps(run_dir), parts.mesh.size
    if not saved or saved[-1] >= parts.settings.total_steps:
        return []
    # A start that made no step has changed nothing.
    starts = [start for start in read_starts(run_dir) if start.step < saved[-1]]
    before = starts[-1].devices if starts else now
    sides = _normalized_per_device(parts)
    if before == now or not sides:
        return []
    if "devices" in allowed:
        return [f"devices: {before} -> {now}"]
    raise UserError(
        f"{run_dir} was trained on {before} device(s), and here are {now}: "
        f"config.model.{sides[0]}.encoder.statistics='per_device' normalizes the items of each "
        f"device. Use {before} device(s), add --allow_changes=devices to continue on {now}, or use "
        "another --workdir."
    )


def _normalized_per_device(parts: "Run") -> list[str]:
    """Sides whose encoder normalizes with the statistics of each device's items."""
    found = []
    for side in parts.model.towers:
        encoder = parts.settings.model[side]["encoder"]
        policy = encoder.get("batch_norm", "batch")
        is_trained = any(path.startswith(f"{side}/encoder/") for path in flatten(parts.trained))
        uses_batch = policy == "batch_frozen" or (policy == "batch" and is_trained)
        if encoder.get("statistics") == "per_device" and uses_batch:
            found.append(side)
    return found


def check_metric(run_dir: str, settings: RunConfig) -> None:
    """Raises an error if a run is at its last step and no checkpoint has the metric of `select`.

    Raises:
      UserError: names the metric, and what to do.
    """
    saved, select = run_folder.steps(run_dir), settings.select
    if not saved or saved[-1] < settings.total_steps or not select.metric:
        return
    if not any(select.metric in run_folder.load_metrics(run_dir, step) for step in saved):
        raise UserError(
            f"No checkpoint of {run_dir} has config.select.metric={select.metric!r}, "
            "and the run is at its last step; use the previous metric, or raise config.total_steps."
        )


def differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Returns path -> (value before, value now) for all differences that affect training."""
    free = _FREE
    if not (_depends_on_length(before) or _depends_on_length(now)):
        free = (*free, "total_steps$")
    free = (*free, r"evals\.\w+\.(final_split|batch_size|bootstrap_samples)$")
    # Evaluators do not affect training, unless the learning rate depends on one.
    watched = {_plateau_evaluator(before), _plateau_evaluator(now)}
    one, other = (_flat(_with_evaluators(settings, watched)) for settings in (before, now))
    pairs = {
        path: (one.get(path, ABSENT), other.get(path, ABSENT))
        for path in dict.fromkeys([*one, *other])
        if not any(re.match(pattern, path) for pattern in free)
    }
    # A section that was None is listed by its keys instead.
    sections = {path.rsplit(".", n)[0] for path in pairs for n in range(1, path.count(".") + 1)}
    return {
        path: values
        for path, values in pairs.items()
        if values[0] != values[1] and path not in sections
    }


def check_paths(allowed: Collection[str], known: Collection[str]) -> None:
    """Raises an error for an `--allow_changes` path that is not in a config."""
    for path in allowed:
        if path not in _OUTSIDE and not any(is_allowed(each, [path]) for each in known):
            sections = {
                each.rsplit(".", n)[0] for each in known for n in range(each.count(".") + 1)
            }
            near = difflib.get_close_matches(path, sorted(sections), n=1)
            raise UserError(
                f"--allow_changes={path} is not a path or section of the config, nor 'records' or "
                "'devices'." + (f" Did you mean {near[0]!r}?" if near else "")
            )


def is_allowed(path: str, allowed: Collection[str]) -> bool:
    """Returns whether a path, or a section that it is in, is among the allowed ones."""
    return any(f"{path}.".startswith(f"{each}.") for each in allowed)


def _depends_on_length(settings: RunConfig) -> bool:
    optimizer = settings.optimizer
    # The last step is always evaluated, and the plateau sees that evaluation.
    return read_schedule(optimizer.schedule).ends_with_run or optimizer.plateau is not None


def _plateau_evaluator(settings: RunConfig) -> str:
    plateau = settings.optimizer.plateau
    return "" if plateau is None else plateau.metric.partition("/")[0]


def _with_evaluators(settings: RunConfig, names: Collection[str]) -> RunConfig:
    """Returns settings with these evaluators alone, whose options have all their defaults."""
    sections = {name: section for name, section in settings.evals.items() if name in names}
    options = {name: dataclasses.asdict(each) for name, each in read_options(sections).items()}
    return dataclasses.replace(settings, evals=options)


def _flat(settings: RunConfig) -> dict[str, Any]:
    """Returns path -> value, as in JSON, where tuples are lists and keys are strings."""
    return flatten_section(json.loads(json.dumps(dataclasses.asdict(settings))))


def _arrow(values: tuple[Any, Any]) -> str:
    return " -> ".join(repr(value) if value != ABSENT else ABSENT for value in values)
