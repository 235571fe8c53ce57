"""The first state of a run: its own checkpoint, other weights, or a fresh start."""

import dataclasses
from collections.abc import Collection

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.initialization import (
    blend,
    from_concepts,
    from_run,
    from_towers,
    from_word_vectors,
)
from xmodal.train.optimization.optimizer import observe_metrics
from xmodal.train.run import Run
from xmodal.train.run_config import RunConfig
from xmodal.train.step.state import TrainState, create_state
from xmodal.train.tree import flatten, matches, top_levels


def starting_state(parts: Run, run_dir: str, step: int | None = None) -> TrainState:
    """Returns the newest state of the run, else one with the weights of `config.init_from`.

    The order: the run's own newest checkpoint; published towers; published word vectors; another
    run's weights for the paths that `config.init_from.include` takes; random values. If
    `config.init_from.blend` names a run, they are averaged with its weights.

    Args:
      parts: parts of the run.
      run_dir: the run's folder.
      step: step of the run's own checkpoint to use; None for the newest.

    Raises:
      UserError: the checkpoint, the towers or the other run do not fit the config.
    """
    logging.info("%s", describe(parts))
    saved = _saved_step(parts.settings, run_dir, step)
    if saved is None:
        return initial_state(parts)
    state = checkpoints.restore_step(run_dir, saved, parts.state_shapes)
    # A checkpoint that was evaluated after a stop got metrics, but still has the plateau of before.
    metrics = run_folder.load_metrics(run_dir, saved)
    opt_state = observe_metrics(parts.settings.optimizer, state.opt_state, metrics)
    return dataclasses.replace(state, opt_state=opt_state)


def initial_state(parts: Run) -> TrainState:
    """Returns the state at step 0, a function of the config; see `starting_state` for errors."""
    settings, shapes = parts.settings, parts.state_shapes
    source, towers = settings.init_from, _load_towers(parts)
    rows = from_word_vectors.load_rows(shapes, source, settings.data, settings.train_split)
    constants = from_concepts.load_constants(
        shapes, source, settings.data, settings.train_split, settings.seed
    )
    with progress("Compiling and drawing the initial weights", 1):
        state = create_state(parts.init_state, shapes, parts.key_data)
    state = from_concepts.place(state, constants)
    state = from_towers.place(state, towers)
    state = from_word_vectors.place(state, rows)
    taken = set(towers.params) | ({from_word_vectors.TABLE} if rows else set())
    if source.run:
        state = from_run.take_weights(state, source)
        taken |= {path for path in flatten(state.all_params()) if matches(source.include, path)}
    if source.blend.run:
        _check_all_taken(state, taken)
        state = blend.blend_weights(state, source.blend)
    if not taken:
        logging.info("Starting %s from scratch, seed %d.", settings.name, settings.seed)
    _warn_of_random(settings, state, taken)
    return state


def check_start(parts: Run, run_dir: str, step: int | None = None) -> None:
    """Checks the checkpoint or the weights that a run starts from; places nothing on a device.

    Args:
      parts: parts of the run.
      run_dir: the run's folder.
      step: see `starting_state`.

    Raises:
      UserError: see `starting_state`.
    """
    saved, shapes = _saved_step(parts.settings, run_dir, step), parts.state_shapes
    if saved is not None:
        checkpoints.check_fits(run_dir, saved, shapes, run_folder.ITEMS)
        return
    source, towers = parts.settings.init_from, _load_towers(parts)
    taken = set(towers.params)
    if source.word_vectors.file:
        taken.add(from_word_vectors.TABLE)
    if source.run:
        from_run.check_weights(shapes, source)
        taken |= {path for path in flatten(shapes.all_params()) if matches(source.include, path)}
    if source.blend.run:
        _check_all_taken(shapes, taken)
        blend.check_blend(shapes, source.blend)


def _load_towers(parts: Run) -> from_towers.TowerWeights:
    shapes, source = parts.state_shapes, parts.settings.init_from
    towers = from_towers.load_towers(shapes, source)
    if towers.params:
        logging.info("%s", from_towers.describe(shapes, towers, source))
    return towers


def _check_all_taken(state: TrainState, taken: Collection[str]) -> None:
    if fresh := sorted(set(flatten(state.all_params())) - set(taken)):
        raise UserError(
            f"config.init_from.blend needs two whole models, but {fresh[0]} would start at "
            "random in the first: name its weights in config.init_from.run, towers or model."
        )


def _saved_step(settings: RunConfig, run_dir: str, step: int | None) -> int | None:
    """The step of the checkpoint to resume from; the newest, if none is requested."""
    saved = run_folder.steps(run_dir)
    if not saved:
        return None
    step = saved[-1] if step is None else step
    if step > settings.total_steps:
        raise UserError(
            f"{run_dir} is at step {step}, beyond config.total_steps={settings.total_steps}; "
            "raise it, or start over with another --workdir."
        )
    return step


def _warn_of_random(settings: RunConfig, state: TrainState, taken: Collection[str]) -> None:
    """Warns about parts that start at random although they are frozen or published."""
    frozen = set(flatten(state.frozen)) - set(taken)
    if frozen:
        logging.warning("Frozen at random initial values: %s.", top_levels(frozen))
    fresh = set(flatten(state.all_params())) - set(taken)
    published = settings.init_from.published
    missing = [p.rstrip("/") for p in published if any(matches([p], path) for path in fresh)]
    if missing:
        logging.warning(
            "%s: random at the start, but this experiment uses published weights. Published "
            "numbers cannot be reproduced this way. Convert the weights with "
            "`xmodal convert` and name them in config.init_from.towers, or name a run in "
            "config.init_from.run; the header of the config has the commands.",
            ", ".join(missing),
        )


def describe(parts: Run) -> str:
    """Returns a table of parameters by tower and top-level part, trained and frozen."""
    rows = [("part", "trained", "frozen")]
    counts: dict[str, list[int]] = {}
    for column, tree in enumerate((parts.trained, parts.frozen)):
        for path, leaf in flatten(tree).items():
            (part,) = top_levels([path])
            counts.setdefault(part, [0, 0])[column] += int(np.prod(leaf.shape))
    rows += [(part, f"{n[0]:,}", f"{n[1]:,}") for part, n in sorted(counts.items())]
    totals = np.sum(list(counts.values()), axis=0)
    rows.append(("total", f"{totals[0]:,}", f"{totals[1]:,}"))
    table = "\n".join(f"  {part:<32}{trained:>14}{frozen:>14}" for part, trained, frozen in rows)
    tasks = ", ".join(f"{t.name} ({' - '.join(t.views)})" for t in parts.tasks)
    return (
        f"{parts.settings.name}: {tasks}; batch {parts.settings.batch_size} on "
        f"{parts.mesh.size} {parts.mesh.devices.flat[0].device_kind} device(s)\n{table}"
    )
