"""Builds every part of a run from its config, so that what is wrong is said before it starts."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np
import optax
from etils import epath
from jax.sharding import Mesh

from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError, check_keys
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.preprocessing import read_vocabulary
from xmodal.training import (
    checkpoints,
    feature_store,
    frozen_cache,
    init_from,
    init_towers,
    state,
)
from xmodal.training.optimizer import make_optimizer, make_schedule
from xmodal.training.step import check_towers
from xmodal.training.tasks import Task, caption_indices, compute_losses, make_tasks

KEYS = (
    "name",
    "seed",
    "total_steps",
    "batch_size",
    "log_every",
    "model",
    "tasks",
    "freeze",
    "l2",
    "init_from",
    "frozen_cache",
    "optimizer",
    "data",
    "splits",
    "evaluation",
    "checkpoint",
    "sharding",
)
# Sections that are first read when device time has been spent, and what they hold.
SECTIONS = {
    "splits": ("train", "validation", "test"),
    "evaluation": ("every", "batch_size", "bootstrap_samples", "seed"),
    "checkpoint": checkpoints.KEYS,
    "init_from": init_from.KEYS,
}
_TWO_VECTORS = jax.ShapeDtypeStruct((2, 2), np.float32)
_TWO_IDS = jax.ShapeDtypeStruct((2,), np.int32)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a run, checked against each other.

    Attributes:
      config: the config with everything filled in that follows from the dataset.
      mesh: all devices.
      model: the towers.
      tasks: what is trained.
      optimizer: of the trained parameters.
      schedule: step -> learning rate.
      example_inputs: tower name -> zeros of the shapes the tower takes, batch of one.
    """

    config: ml_collections.ConfigDict
    mesh: Mesh
    model: DualEncoder
    tasks: tuple[Task, ...]
    optimizer: optax.GradientTransformation
    schedule: optax.Schedule
    example_inputs: Mapping[str, Any]


def assemble(config: ml_collections.ConfigDict, *, starts: bool = True) -> Parts:
    """Makes sure that the dataset is there and builds all parts; nothing is compiled yet.

    Args:
      config: the root.
      starts: the run has no checkpoint yet: whatever it starts from is looked at too.

    Raises:
      UserError: an unknown key or name anywhere, or two parts that do not fit.
      data.DatasetMissingError: the dataset is not there; says how to get it.
    """
    _check_section("config", config, KEYS)
    for section, keys in SECTIONS.items():
        _check_section(f"config.{section}", config[section], keys)
    mesh = mesh_lib.make_mesh()
    mesh_lib.check_batch_size(config.batch_size, mesh)
    build(config, mesh)  # Everything else is checked before a dataset is built or asked for.
    if starts:
        check_start(config)
    data.prepare(config.data, splits=config.splits.values())
    examples = data.num_train_examples(config.data, config.splits.train)
    if config.batch_size > examples:
        raise UserError(
            f"config.batch_size={config.batch_size} is more than the {examples:,} training "
            f"examples of config.splits.train={config.splits.train!r}."
        )
    return build(fill_vocabulary(config), mesh)


def _check_section(section: str, given: Mapping[str, Any], keys: Collection[str]) -> None:
    check_keys(section, given, keys)
    if missing := sorted(set(keys) - set(given)):
        raise UserError(f"{section} lacks {missing}; known: {sorted(keys)}.")


def build(config: ml_collections.ConfigDict, mesh: Mesh) -> Parts:
    """Builds all parts for the devices of `mesh` without touching any data.

    Raises:
      UserError: an unknown key or name, or two parts that do not fit.
    """
    tasks = make_tasks(config.tasks)
    inputs = data.parse(config.data)
    drawn = inputs.captions_per_image
    if caption_indices(tasks) and max(caption_indices(tasks)) >= drawn:
        raise UserError(
            f"config.tasks look at caption_{max(caption_indices(tasks))}, but "
            f"config.data.captions_per_image={drawn} draws only caption_0 to caption_{drawn - 1}."
        )
    model = make_model(config.model, mesh)
    check_towers(model, tasks)
    if (config.model.image is None) != (inputs.image is None):
        raise UserError(
            "One of config.model.image and config.data.image is None; set both or none."
        )
    # Traced on two items: a name that a loss or the similarity does not know is found right here.
    views = {view: _TWO_VECTORS for task in tasks for view in (task.left, task.right)}
    jax.eval_shape(lambda v, ids: compute_losses(tasks, v, ids, model.similarity), views, _TWO_IDS)
    example_inputs = make_example_inputs(config.model, inputs)
    # Runs of before have no such key.
    if config.get("frozen_cache"):
        frozen_cache.check(config, model, example_inputs)
    return Parts(
        config=config,
        mesh=mesh,
        model=model,
        tasks=tasks,
        optimizer=make_optimizer(config.optimizer, config.total_steps),
        schedule=make_schedule(config.optimizer, config.total_steps),
        example_inputs=example_inputs,
    )


def check_start(config: ml_collections.ConfigDict) -> None:
    """Looks at the towers a run starts from, without their weights.

    Raises:
      UserError: a folder is not there, or its tower or vocabulary is not the config's.
    """
    towers = config.init_from.towers
    text = init_towers.check_towers(towers, config.model).get("text")
    if text is None or "vocab.txt" not in text.files:
        return
    settings = data.parse(config.data).text
    if not settings.vocabulary:
        raise UserError(
            "config.data.text.vocabulary is '', to be learnt from captions, but the text tower of "
            f"{towers.text} has its own: set it to {towers.text}/vocab.txt."
        )
    tokens = read_vocabulary(epath.Path(settings.vocabulary))
    init_towers.check_vocabulary(
        towers.text,
        text,
        tokens,
        tokenizer=settings.tokenizer,
        lower_case=settings.lower_case,
    )


def state_init(parts: Parts) -> Callable[[], state.TrainState]:
    """The function that makes the run's state of step 0."""
    return state.make_init(
        parts.model,
        parts.optimizer,
        parts.example_inputs,
        seed=parts.config.seed,
        freeze=parts.config.freeze,
    )


def make_model(config: Mapping[str, Any], mesh: Mesh) -> DualEncoder:
    """Builds the model of `config.model` for the devices of `mesh`."""
    devices = mesh.devices.flatten()
    return make_dual_encoder(config, Devices(len(devices), devices[0].platform))


def fill_vocabulary(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets `model.text.vocab_size` to the tokeniser's size where the config leaves it 0.

    Raises:
      UserError: the model has fewer rows than the tokeniser has word pieces.
    """
    if config.model.text is None:
        return config
    pieces, rows = data.vocabulary_size(config.data), config.model.text.vocab_size
    if 0 < rows < pieces:
        raise UserError(
            f"config.model.text.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({pieces} word pieces); set it to {pieces}, or 0 to follow."
        )
    config = ml_collections.ConfigDict(config)
    config.model.text.vocab_size = rows or pieces
    return config


def make_example_inputs(model: Mapping[str, Any], inputs: data.DataConfig) -> dict[str, Any]:
    """Zeros of the shapes each tower takes, from `config.model` and `config.data`."""
    examples: dict[str, Any] = {}
    if model["image"] is not None:
        size = inputs.image.size
        examples["image"] = (
            np.zeros((1, size, size, 3), np.uint8)
            if size
            else np.zeros((1, *np.atleast_1d(model["image"]["features"])), np.float16)
        )
    if model["text"] is not None:
        tokens = np.zeros((1, inputs.text.max_length), np.int32)
        examples["text"] = {"text_ids": tokens, "text_mask": tokens}
    return examples


def describe(parts: Parts, initial: state.TrainState) -> str:
    """A table of parameters by tower and top-level part, trained and frozen."""
    rows = [("part", "trained", "frozen")]
    counts: dict[str, list[int]] = {}
    for column, tree in enumerate((initial.params, initial.frozen)):
        for path, leaf in state.flatten(tree).items():
            part = "/".join(path.split("/")[:2])
            counts.setdefault(part, [0, 0])[column] += int(np.prod(leaf.shape))
    rows += [(part, f"{n[0]:,}", f"{n[1]:,}") for part, n in sorted(counts.items())]
    totals = np.sum(list(counts.values()), axis=0)
    rows.append(("total", f"{totals[0]:,}", f"{totals[1]:,}"))
    table = "\n".join(f"  {part:<32}{trained:>14}{frozen:>14}" for part, trained, frozen in rows)
    tasks = ", ".join(f"{t.name} ({t.left} - {t.right}, weight {t.weight})" for t in parts.tasks)
    return (
        f"{parts.config.name}: {tasks}; batch {parts.config.batch_size} on "
        f"{parts.mesh.size} {jax.devices()[0].device_kind} device(s)\n{table}"
    )


def abstract_batch(parts: Parts) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and layout of a global training batch, as the loop will fill it."""
    size, home = parts.config.batch_size, mesh_lib.batch_sharded(parts.mesh)
    shapes = {"image_id": ((size,), np.int32)}
    if "image" in parts.example_inputs:
        image = parts.example_inputs["image"]
        shapes["image"] = ((size, *image.shape[1:]), image.dtype)
    if "text" in parts.example_inputs:
        captions = data.parse(parts.config.data).captions_per_image
        tokens = parts.example_inputs["text"]["text_ids"].shape[-1]
        shapes["caption_id"] = ((size, captions), np.int32)
        shapes |= {k: ((size, captions, tokens), np.int32) for k in ("text_ids", "text_mask")}
        if parts.config.get("frozen_cache"):
            features = frozen_cache.feature_shape(
                parts.model.towers["text"], parts.example_inputs["text"]
            )
            del shapes["text_ids"]
            shapes["text_features"] = ((size, captions, *features[1:]), feature_store.DTYPE)
    return {
        name: jax.ShapeDtypeStruct(shape, dtype, sharding=home)
        for name, (shape, dtype) in shapes.items()
    }


def count_flops(compiled: jax.stages.Compiled) -> float:
    """FLOPs of one step on one device as the compiler counts them; 0 where it does not."""
    return float((compiled.cost_analysis() or {}).get("flops", 0.0))


def cost(compiled: jax.stages.Compiled) -> str:
    """Memory, FLOPs and traffic of one step on one device, in words."""
    memory = compiled.memory_analysis()
    if memory is None:
        return "This backend gives no memory analysis."
    traffic = (compiled.cost_analysis() or {}).get("bytes accessed", 0.0)
    return (
        f"One step per device: {memory.argument_size_in_bytes / 2**30:.2f} GiB of state and batch, "
        f"{memory.temp_size_in_bytes / 2**30:.2f} GiB of temporaries, "
        f"{count_flops(compiled) / 1e9:.1f} GFLOP, {traffic / 1e9:.1f} GB moved."
    )
