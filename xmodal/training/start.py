"""The first state of a run: its own checkpoint, other weights, or a fresh start."""

import jax
import numpy as np
from absl import logging

from xmodal.config import UserError
from xmodal.training import checkpoints, from_run, from_towers, from_word_vectors
from xmodal.training.run import Parts, RunConfig
from xmodal.training.state import TrainState, abstract_state, create_state
from xmodal.training.tree import flatten


def starting_state(parts: Parts, run_dir: str) -> TrainState:
    """Returns the newest state of the run, else one with the weights of `config.init_from`.

    The order: the run's own newest checkpoint; published towers; published word vectors; another
    run's weights for the paths that `config.init_from.include` takes; random values.

    Raises:
      UserError: the checkpoint, the towers or the other run do not fit the config.
    """
    settings = parts.settings
    init = parts.state_init()
    shapes = abstract_state(init, parts.mesh, settings.sharding)
    logging.info("%s", describe(parts, shapes))
    if saved := checkpoints.steps(run_dir):
        if saved[-1] > settings.total_steps:
            raise UserError(
                f"{run_dir} is at step {saved[-1]}, beyond config.total_steps="
                f"{settings.total_steps}; raise it, or start anew with another --workdir."
            )
        checkpoints.check_same_run(run_dir, parts.config)
        return checkpoints.restore_latest(run_dir, shapes)
    source = settings.init_from
    towers = from_towers.load_towers(shapes, source)
    if towers.params:
        logging.info("%s", from_towers.describe(shapes, towers, source))
    rows = from_word_vectors.load_rows(shapes, source, settings.data)
    state = from_towers.place(create_state(init, parts.mesh, settings.sharding), towers)
    state = from_word_vectors.place(state, rows)
    if source.run:
        return from_run.take_weights(state, source)
    if not towers.params and not rows:
        logging.info("Starting %s from scratch, seed %d.", settings.name, settings.seed)
    random = {
        "/".join(path.split("/")[:2])
        for path in set(flatten(state.frozen)) - set(towers.params)
        if not (rows and path == from_word_vectors.TABLE)
    }
    if random:
        logging.warning("Frozen at a random start: %s.", sorted(random))
    return state


def describe(parts: Parts, initial: TrainState) -> str:
    """Returns a table of parameters by tower and top-level part, trained and frozen."""
    rows = [("part", "trained", "frozen")]
    counts: dict[str, list[int]] = {}
    for column, tree in enumerate((initial.params, initial.frozen)):
        for path, leaf in flatten(tree).items():
            part = "/".join(path.split("/")[:2])
            counts.setdefault(part, [0, 0])[column] += int(np.prod(leaf.shape))
    rows += [(part, f"{n[0]:,}", f"{n[1]:,}") for part, n in sorted(counts.items())]
    totals = np.sum(list(counts.values()), axis=0)
    rows.append(("total", f"{totals[0]:,}", f"{totals[1]:,}"))
    table = "\n".join(f"  {part:<32}{trained:>14}{frozen:>14}" for part, trained, frozen in rows)
    tasks = ", ".join(f"{t.name} ({' - '.join(t.views)})" for t in parts.tasks)
    return (
        f"{parts.settings.name}: {tasks}; batch {parts.settings.batch_size} on "
        f"{parts.mesh.size} {jax.devices()[0].device_kind} device(s)\n{table}"
    )


def check_start(settings: RunConfig) -> None:
    """Compares the towers that a run starts from with its config, without reading weights.

    Raises:
      UserError: a folder is not there, or its tower or vocabulary is not the config's.
    """
    from_word_vectors.check_file(settings.init_from, bool(settings.model.get("text")))
    described = from_towers.check_towers(settings.init_from, settings.model)
    if "text" in described:
        folder = settings.init_from.towers.text
        from_towers.check_vocabulary(folder, described["text"], settings.data.text)
    if settings.init_from.run:
        checkpoints.resolve_step(settings.init_from.run, settings.init_from.step)
