"""Published towers as a model: their weights and a config, without training."""

import functools
from collections.abc import Collection, Iterator

import jax
import jax.numpy as jnp
import ml_collections
from etils import epath

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.files import split_folders
from xmodal.core.tree_paths import leaves_by_path
from xmodal.evals.scores.embed import Items
from xmodal.pretrained.folder import MODALITIES, read_model
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import describe_captions, open_ensemble
from xmodal.train.evaluation.subjects import Opened
from xmodal.train.evaluation.suite import Subject
from xmodal.train.inherit import inherit
from xmodal.train.initialization import from_towers
from xmodal.train.resolve import build_run, changed_settings
from xmodal.train.run import Run
from xmodal.train.run_config import fill
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, Tree, replace_arrays


def build_untrained(config: ml_collections.ConfigDict) -> Run:
    """Builds the parts of a config that trains nothing, from the towers of `init_from.towers`.

    Args:
      config: config with the sections of a run; what follows from the towers may be left unset,
        see `inherit`, and if `init_from.model` names a model, both modalities may be None.
    """
    config = fill(inherit(config), examples=1)
    given = read(InitConfig, "config.init_from", config.init_from)
    source = from_towers.with_local_folders(given)
    folders = from_towers.named_folders(source)
    if missing := [
        modality for modality in MODALITIES if config.model[modality] and modality not in folders
    ]:
        raise UserError(
            f"config.init_from.towers.{missing[0]} is empty: name the folder that `xmodal convert` "
            "made of the published weights."
        )
    known = read_model(source.model).tasks if source.model else {}  # Others have no weights.
    config.tasks = {name: task for name, task in config.tasks.items() if name in known}
    return build_run(config, mesh_lib.make_mesh(), trains=False)


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
    folders, members = split_folders(config.init_from.model) or [""], {}
    for folder in folders:
        own = config.copy_and_resolve_references()
        own.init_from.model = folder
        parts = build_untrained(own)
        evaluation = RunEvaluation(parts, names=names, trains=False)
        label = epath.Path(folder).name if len(folders) > 1 else config.name
        subjects, settings = _subjects(evaluation, label), parts.settings
        shown = changed_settings(settings)
        members[folder] = Opened(evaluation.suite, subjects, settings.tensorboard, shown)
    return open_ensemble(members, split) if len(members) > 1 else members[folder]


def _subjects(evaluation: RunEvaluation, label: str) -> Iterator[Subject]:
    adapter = evaluation.adapter(*load_weights(evaluation.parts))
    yield Subject(label, adapter, functools.partial(describe, evaluation.parts))


def load_weights(parts: Run) -> tuple[Tree, Tree]:
    """Returns `(params, model_state)` from the folders of the towers, on every device."""
    replicated = mesh_lib.replicated(parts.mesh)
    params, model_state = jax.tree.map(lambda leaf: leaf.update(sharding=replicated), parts.shapes)
    state = TrainState(
        step=jnp.int32(0), params=params, frozen={}, model_state=model_state, opt_state=()
    )
    source = from_towers.with_local_folders(parts.settings.init_from)
    weights = from_towers.load_towers(state, source)
    if fresh := sorted(set(leaves_by_path(params)) - set(weights)):
        raise UserError(
            f"No published weights have {fresh[0]} ({len(fresh)} such arrays); without training, "
            "the model cannot have its own parameters."
        )
    state = replace_arrays(state, weights)
    return state.params, state.model_state


def describe(parts: Run, split: Items) -> list[str]:
    """Returns notes on the towers, and on what their tokenizer loses of the captions."""
    settings = parts.settings
    folders = from_towers.named_folders(from_towers.with_local_folders(settings.init_from))
    notes = [
        f"{modality.capitalize()} tower: {folder}, as it is."
        for modality, folder in folders.items()
    ]
    return notes + describe_captions(settings.data, settings.train_split, split)
