"""The first state of a run: its own checkpoint, other weights, or a fresh start."""

import collections
import dataclasses

import jax
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.text.concept_graph import Concepts
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.initialization import from_run, from_towers
from xmodal.train.optimization.optimizer import observe_metrics
from xmodal.train.run import Run
from xmodal.train.sections import InitConfig, WordVectorsConfig
from xmodal.train.tree import TrainState, create_state, matches, replace_arrays, top_levels

TABLE = "text/encoder/table"
_GRAPH = "constants/head/graph"
_CONCEPTS = "text/constants/head/concept_of_word"


def starting_state(run: Run, run_dir: str, *, sets_aside: bool = False) -> TrainState:
    """Returns the newest state of the run, else one with the weights of `config.init_from`.

    The order: the run's own newest checkpoint; published towers; published word vectors; another
    run's weights for the paths that `config.init_from.include` takes; random values.

    Args:
      run: the run.
      run_dir: the run's folder.
      sets_aside: whether damaged checkpoints are moved away, see `checkpoints.newest_whole`.
    """
    settings, shapes = run.settings, run.state_shapes
    step, last = checkpoints.newest_whole(run_dir, sets_aside=sets_aside), settings.total_steps
    if step is None:
        return initial_state(run)
    if step > last:
        raise UserError(
            f"{run_dir} is at step {step}, beyond config.total_steps={last}; raise it, or start "
            "over with another --workdir."
        )
    state = checkpoints.restore_step(run_dir, step, shapes)
    # A checkpoint that was evaluated after a stop has metrics, but still the plateau of before.
    metrics = run_folder.load_metrics(run_dir, step)
    opt_state = observe_metrics(settings.optimizer, state.opt_state, metrics)
    return dataclasses.replace(state, opt_state=opt_state)


def initial_state(run: Run) -> TrainState:
    """Returns the state at step 0, a function of the config; see `starting_state` for errors."""
    settings, shapes = run.settings, run.state_shapes
    source = from_towers.with_local_folders(settings.init_from)
    data_config, split = settings.data, settings.train_split
    arrays = from_towers.load_towers(shapes, source)
    arrays |= load_constants(shapes, source, data_config, split, settings.seed)
    rows = load_rows(shapes, source.word_vectors, data_config, split)
    if source.run:
        arrays |= from_run.load_weights(shapes, source)
    if rows and TABLE in arrays:
        raise UserError(
            f"config.init_from.word_vectors provides {TABLE}, and so do the weights of a run, "
            "model or tower; remove one."
        )
    fresh = sorted(shapes.flat_params().keys() - arrays - ({TABLE} if rows else set()))
    if frozen := leaves_by_path(shapes.frozen).keys() & set(fresh):
        logging.warning("Frozen at random initial values: %s.", top_levels(frozen))
    if missing := [p for p in source.published if any(matches([p], path) for path in fresh)]:
        logging.warning(
            "%s: random at the start, but this experiment uses published weights. Published "
            "numbers cannot be reproduced this way. Convert the weights with "
            "`xmodal convert` and name them in config.init_from.towers, or name a run in "
            "config.init_from.run; the header of the config has the commands.",
            ", ".join(missing),
        )
    logging.info("Compiling and drawing the initial weights.")
    state = create_state(run.init_state, shapes, run.key_data)
    state = replace_arrays(state, arrays, {TABLE: rows} if rows else {})
    if source.run and source.optimizer:
        moments = from_run.load_moments(shapes, source)
        state = dataclasses.replace(state, opt_state=state.opt_state | {"moments": moments})
    return state


def load_rows(
    state: TrainState, source: WordVectorsConfig, config: data.DataConfig, train_split: str
) -> dict[int, np.ndarray]:
    """Returns published vectors, such as GloVe's, by row of the word table; {} without a file.

    Args:
      state: shapes of the state they are for.
      source: `config.init_from.word_vectors`.
      config: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`.
    """
    if not source.file:
        return {}
    table = state.flat_params().get(TABLE)
    if table is None:
        raise UserError(
            f"config.init_from.word_vectors.file={source.file!r}, but the text encoder has no word "
            "table."
        )
    words = data.load_vocabulary(config, train_split)
    rows = find_vectors(source.file, words)
    width = len(next(iter(rows.values()), ()))
    if width != table.shape[1]:
        raise UserError(
            f"{source.file} has vectors of {width} numbers for {len(rows)} words of the "
            f"vocabulary, but config.model.text.encoder has a table of {table.shape[1]}."
        )
    logging.info("%s: %d of %d words of the vocabulary.", source.file, len(rows), len(words))
    return rows


def load_constants(
    state: TrainState, source: InitConfig, config: data.DataConfig, train_split: str, seed: int
) -> dict[str, np.ndarray]:
    """Returns the graph of concepts, and the words that name them, by path; {} without concepts.

    Vectors of concepts come from the concept file, else from `config.init_from.word_vectors`; those
    that neither has are drawn from N(0, 1).

    Args:
      state: shapes of the state they are for.
      source: `config.init_from`; a model that it names has constants of its own.
      config: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`.
      seed: seed of the vectors that are drawn.
    """
    flat = leaves_by_path(state.model_state)
    graphs = [g for g in (f"image/{_GRAPH}", f"text/{_GRAPH}") if f"{g}/vectors" in flat]
    if source.model or not graphs:
        return {}
    count, width = flat[f"{graphs[0]}/vectors"].shape
    concepts = data.load_concepts(source.concepts, config, count, train_split)
    if len(concepts.words) != count:
        raise UserError(
            f"{source.concepts or 'The training captions'} have {len(concepts.words)} concepts, "
            f"but config.model.*.head.concepts is {count}; set it to {len(concepts.words)}."
        )
    vectors, adjacency = _find_vectors(concepts, source, width, seed), concepts.adjacency()
    found = {f"{graph}/vectors": vectors for graph in graphs}
    found |= {f"{graph}/adjacency": adjacency for graph in graphs}
    if _CONCEPTS in flat:
        words = data.load_vocabulary(config, train_split)
        found[_CONCEPTS] = np.full(flat[_CONCEPTS].shape, count, np.int32)
        found[_CONCEPTS][: len(words)] = concepts.concept_of_word(words)
    return found


def _find_vectors(concepts: Concepts, source: InitConfig, width: int, seed: int) -> np.ndarray:
    """The vectors of concepts, float32 [concepts, width]."""
    vectors, file, rows = concepts.vectors, source.word_vectors.file, {}
    if vectors is None:
        vectors = np.random.default_rng(seed).normal(size=(len(concepts.words), width))
        if file:
            rows = find_vectors(file, concepts.words)
        if missing := len(concepts.words) - len(rows):
            logging.warning(
                "%d of %d concepts have random vectors; config.init_from.word_vectors.file names "
                "published ones.",
                *(missing, len(concepts.words)),
            )
    for place, row in rows.items():
        vectors[place] = row
    return vectors.astype(np.float32)


def describe(run: Run) -> str:
    """Returns a table of parameters by tower and top-level part, trained and frozen."""
    counts = collections.defaultdict[str, list[int]](lambda: [0, 0])
    for column, tree in enumerate((run.state_shapes.params, run.state_shapes.frozen)):
        for tower, parts in tree.items():
            for part, leaves in parts.items():
                size = sum(leaf.size for leaf in jax.tree.leaves(leaves))
                for name in (f"{tower}/{part}", "total"):
                    counts[name][column] += size
    counts["total"] = counts.pop("total")  # As the last row.
    rows = [f"  {'part':<32}{'trained':>14}{'frozen':>14}"]
    rows += [f"  {part:<32}{n[0]:>14,}{n[1]:>14,}" for part, n in counts.items()]
    settings, device = run.settings, run.mesh.devices.flat[0].device_kind
    tasks = ", ".join(f"{t.name} ({' - '.join(t.views)})" for t in run.tasks)
    return (
        f"{settings.name}: {tasks}; batch {settings.batch_size} on {run.mesh.size} {device} "
        "device(s)\n" + "\n".join(rows)
    )
