"""Published towers as a model: their weights and a config, without training."""

import functools
from collections.abc import Collection, Iterator

import jax
import jax.numpy as jnp
import ml_collections
from etils import epath

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.buckets import split_folders
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals import read_options
from xmodal.evals.scores.embed import Items
from xmodal.pretrained.model_folder import read_model
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import Member, open_ensemble
from xmodal.train.evaluation.sentence_notes import describe_captions
from xmodal.train.evaluation.subjects import Opened
from xmodal.train.evaluation.suite import Subject
from xmodal.train.fill import fill
from xmodal.train.inherit import inherit
from xmodal.train.initialization import from_towers
from xmodal.train.resolve import check_data_sides, make_model
from xmodal.train.run import Run
from xmodal.train.run_config import RunConfig, read_settings
from xmodal.train.step.state import TrainState
from xmodal.train.step.tasks import Task, make_tasks
from xmodal.train.tree import Tree, flatten


def build_untrained(config: ml_collections.ConfigDict) -> Run:
    """Builds the parts of a config that trains nothing, from the towers of `init_from.towers`.

    Args:
      config: config with the sections of a run; what follows from the towers may be left unset,
        see `inherit`, and if `init_from.model` names a model, both sides may be None.

    Raises:
      UserError: an unknown key or name, no folder for a tower, or weights of another tower or
        another vocabulary; all of these are found before the dataset is read.
    """
    config = fill(inherit(config), examples=1, entries=None)
    settings = read_settings(config)
    folders = from_towers.named_folders(settings.init_from)
    for side in ("image", "text"):
        if config.model[side] is not None and side not in folders:
            raise UserError(
                f"config.init_from.towers.{side} is empty: name the folder that "
                "`xmodal convert` made of the published weights of the encoder "
                f"{config.model[side].encoder.name!r}."
            )
    if "text" in folders and settings.data.text is not None:
        _check_rows(settings.data.text, config.model.text.encoder.vocab_size)
    mesh = mesh_lib.make_mesh()
    model = make_model(settings.model, mesh)
    check_data_sides(model.towers, settings.data)
    batch = data.batch_spec(settings.data, settings.batch_size, trains=False)
    evals = read_options(settings.evals)
    return Run(config, settings, evals, mesh, model, _tasks_with_weights(settings), batch)


def open_towers(
    config: ml_collections.ConfigDict,
    names: Collection[str] | None = None,
    split: str | None = None,
) -> Opened:
    """Returns published towers as a model; see `build_untrained` for errors.

    Args:
      config: see `build_untrained`; several folders of `init_from.model`, separated by commas, are
        one model, see `open_ensemble`.
      names: evaluators to use; None for all.
      split: `Request.split`.
    """
    if len(folders := models_of(config)) > 1:
        return open_ensemble([_member(config, each, names) for each in folders], split)
    parts = build_untrained(config)
    evaluation = RunEvaluation(parts, names=names, trains=False)

    def subjects() -> Iterator[Subject]:
        provider = evaluation.provider(*load_weights(parts))
        yield Subject(config.name, provider, lambda split: describe(parts, split))

    identity, settings = ModelIdentity.of_config(config), config.to_dict()
    return Opened(evaluation.suite, subjects(), identity, parts.settings.tensorboard, settings)


def models_of(config: ml_collections.ConfigDict) -> list[str]:
    """Returns the folders that `init_from.model` names."""
    return split_folders(config.init_from.model)


def _member(
    config: ml_collections.ConfigDict, folder: str, names: Collection[str] | None
) -> Member:
    own = config.copy_and_resolve_references()
    own.init_from.model = folder
    parts = build_untrained(own)
    return Member(
        epath.Path(folder).name,
        folder,
        RunEvaluation(parts, names=names, trains=False),
        functools.partial(load_weights, parts),
        ModelIdentity.of_config(own),
    )


def _tasks_with_weights(settings: RunConfig) -> tuple[Task, ...]:
    """The tasks of the config whose parameters are in the folder of a model."""
    if not settings.init_from.model:
        return ()
    known = read_model(settings.init_from.model).tasks
    sections = {name: task for name, task in settings.tasks.items() if name in known}
    return make_tasks(sections) if sections else ()


def load_weights(parts: Run) -> tuple[Tree, Tree]:
    """Returns `(params, model_state)` from the folders of the towers, on every device.

    Raises:
      UserError: the model has parameters that are in no folder.
    """
    replicated = mesh_lib.replicated(parts.mesh)
    params, model_state = jax.tree.map(lambda leaf: leaf.update(sharding=replicated), parts.shapes)
    state = TrainState(
        step=jnp.int32(0), params=params, frozen={}, model_state=model_state, opt_state=()
    )
    weights = from_towers.load_towers(state, parts.settings.init_from)
    if fresh := sorted(set(flatten(params)) - set(weights.params)):
        raise UserError(
            f"No published weights have {fresh[0]} ({len(fresh)} such arrays); without training, "
            "the model cannot have its own parameters."
        )
    state = from_towers.place(state, weights)
    return state.params, state.model_state


def describe(parts: Run, split: Items) -> list[str]:
    """Returns notes on the towers, and on what their tokenizer loses of the captions."""
    settings = parts.settings
    folders = from_towers.named_folders(settings.init_from)
    notes = [f"{side.capitalize()} tower: {folder}, as it is." for side, folder in folders.items()]
    return notes + describe_captions(settings.data, settings.train_split, split)


def _check_rows(text: TextConfig, rows: int) -> None:
    """Raises an error if the size of the vocabulary differs from the tower's."""
    tokens = read_vocabulary(text.vocabulary)
    if len(tokens) != rows:
        raise UserError(
            f"config.data.text.vocabulary={text.vocabulary!r} has {len(tokens):,} tokens, but the "
            f"text tower has {rows:,} rows."
        )
