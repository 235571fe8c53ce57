"""Changes to a run's config between two of its starts."""

import dataclasses
import json
import re
from collections.abc import Collection
from typing import Any

from xmodal.core.config import check_keys, flatten_section
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import ID_FIELDS
from xmodal.evals import read_options
from xmodal.train.folder import run_folder
from xmodal.train.folder.compute import read_starts
from xmodal.train.optimization.schedules import read_schedule
from xmodal.train.run_config import RunConfig, read_settings

# What may differ: no update depends on these, or they choose equivalent implementations.
_MAY_CHANGE = re.compile(
    r"(name|log_every|non_finite|best_checkpoint|checkpoint|sharding|tensorboard|profile)(\.|$)"
    r"|frozen_features\.folder$|init_from\.published$"
    r"|data\.(data_dir|manual_dir|ratings_dir|prefetch)$"
    # How a vocabulary is learned; the run already has its own.
    r"|data\.text\.(vocabulary_size|min_count)$"
    r"|model\.\w+\.encoder\.(remat|remat_policy|unroll|attention|depthwise|form)$"
    r"|tasks\..+\.loss\.options\.(engine|chunk_size)$"
    r"|evals\.\w+\.(final_split|batch_size|bootstrap_samples)$"
)
# The token ids of a text, which the weights depend on, can never differ.
_IDS = re.compile(rf"data\.text\.({'|'.join((*ID_FIELDS, 'vocabulary'))})$")


def check_changes(
    run_dir: str, settings: RunConfig, devices: int, allowed: Collection[str] = ()
) -> list[str]:
    """Raises an error if a config changes what or how an existing run learns.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      settings: settings of the run, with everything filled in.
      devices: number of devices, which matters if each normalizes its own items.
      allowed: paths or sections of the config that may differ from those at the start of the run;
        "devices" allows another number of them.

    Returns:
      The changes that were allowed, one string each.

    Raises:
      UserError: lists every path that differs with its two values; or an allowed path is unknown.
    """
    if not (saved := run_folder.steps(run_dir)):
        return []
    # A start that made no step has changed nothing, and a run at its end is only evaluated.
    starts = [start.devices for start in read_starts(run_dir) if start.step < saved[-1]]
    changed = {}
    is_other = starts[-1:] not in ([], [devices])
    if is_other and saved[-1] < settings.total_steps and _normalizes_per_device(settings):
        changed["devices"] = f"devices: {starts[-1]} -> {devices}"
    before = read_settings(run_folder.load_run(run_dir))
    sections = dataclasses.asdict(before) | dataclasses.asdict(settings)
    paths = [path.split(".") for path in flatten_section(sections)]
    known = {".".join(path[:n]) for path in paths for n in range(1, len(path) + 1)}
    check_keys("--allow_changes", allowed, known | {"records", "devices"})
    for path, (one, other) in differences(before, settings).items():
        changed[path] = f"{path}: {one!r} -> {other!r}"
    refused = [
        path
        for path in changed
        if _IDS.match(path) or not any(f"{path}.".startswith(f"{each}.") for each in allowed)
    ]
    if refused:
        remedy = f"add --allow_changes={','.join(refused)} to use the new ones"
        if any(map(_IDS.match, refused)):
            remedy = "start another run from its weights with --config.init_from.run"
        lines = "".join(f"  {changed[path]}\n" for path in refused)
        raise UserError(
            f"{run_dir} was started with another config:\n{lines}Set the values before the "
            f"arrows, {remedy}, or use another --workdir."
        )
    return list(changed.values())


def _normalizes_per_device(settings: RunConfig) -> bool:
    """Returns whether training batches are normalized by the statistics of each device."""
    encoders = [side["encoder"] for side in settings.model.values() if side and "encoder" in side]
    return any(
        each.get("statistics") == "per_device" and each.get("batch_norm") != "running"
        for each in encoders
    )


def differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Returns path -> (value before, value now) for all differences that affect training."""
    one, other = _flat(before), _flat(now)
    # The last step is always evaluated, and the plateau sees that evaluation.
    if not any(
        each.optimizer.plateau or read_schedule(each.optimizer.schedule).ends_with_run
        for each in (before, now)
    ):
        del one["total_steps"], other["total_steps"]
    return {
        path: (one.get(path), other.get(path))
        for path in one | other
        if one.get(path) != other.get(path) and not _MAY_CHANGE.match(path)
    }


def _flat(settings: RunConfig) -> dict[str, Any]:
    """Returns path -> value of what training depends on, as in JSON: tuples are lists."""
    plateau, evals = settings.optimizer.plateau, {}
    if plateau is not None:  # Evaluators do not affect training otherwise.
        name = plateau.metric.partition("/")[0]
        evals = {name: dataclasses.asdict(read_options(settings.evals)[name])}
    section = dataclasses.asdict(dataclasses.replace(settings, evals=evals))
    return flatten_section(json.loads(json.dumps(section)))
