"""Weights of published towers and models, from folders written by `xmodal convert`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders.position_resize import resize_grid_positions, resize_text_positions
from xmodal.pretrained.folder import read_description, read_weights
from xmodal.pretrained.model_folder import SIDES, read_model, read_part
from xmodal.pretrained.packaged_towers import locate_tower
from xmodal.train.sections import InitConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import flatten, matches, part_of, top_levels

_SECTION = "config.init_from.towers"
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class TowerWeights:
    """Converted weights, checked against the state they are for.

    Attributes:
      params: path in a state's parameters -> float32 array.
      model_state: path in a state's model state -> float32 array.
      resampled: a sentence for each side whose positions were resampled.
    """

    params: Mapping[str, np.ndarray]
    model_state: Mapping[str, np.ndarray]
    resampled: Sequence[str] = ()


def named_folders(source: InitConfig) -> dict[str, str]:
    """Returns side -> folder for the towers that a config names, alone or in a model.

    Raises:
      UserError: see `locate_tower`.
    """
    if source.model:
        return {side: os.path.join(source.model, side) for side in SIDES}
    named = dataclasses.asdict(source.towers)
    return {
        side: locate_tower(f"{_SECTION}.{side}", folder) for side, folder in named.items() if folder
    }


def load_towers(state: TrainState, source: InitConfig) -> TowerWeights:
    """Returns the weights that `config.init_from.towers` or `.model` names, checked.

    Args:
      state: shapes of the state they are for.
      source: `config.init_from`. If it also names a run, `include` may not take anything
        that the towers provide.

    Returns:
      The weights by path, with BERT's lower layers split off if the model splits them off.

    Raises:
      UserError: a folder or file is missing or damaged, or an array has another shape, is
        missing, or is left over.
    """
    params: dict[str, np.ndarray] = {}
    model_state: dict[str, np.ndarray] = {}
    resampled: list[str] = []
    for side, folder in named_folders(source).items():
        tower = _load_tower(state, side, folder)
        params |= tower.params
        model_state |= tower.model_state
        resampled += tower.resampled
    if source.model:
        leaves = flatten(state.all_params())
        params |= _task_params(source.model, leaves)
        for part in ("similarity", "pair_scorer"):
            params |= _part_params(source.model, part, leaves)
        numbers = read_model(source.model).parameters
        params |= {
            f"similarity/{name}": np.asarray(value, np.float32) for name, value in numbers.items()
        }
    both = [path for path in params if source.run and matches(source.include, path)]
    if both:
        raise UserError(
            f"config.init_from.include={list(source.include)} takes {both[0]} from "
            f"{source.run}, but {_SECTION} provides it too: narrow include."
        )
    return TowerWeights(params, model_state, resampled)


def _load_tower(state: TrainState, side: str, folder: str) -> TowerWeights:
    params: dict[str, np.ndarray] = {}
    model_state: dict[str, np.ndarray] = {}
    for name, array in read_weights(folder).items():
        kind, _, path = name.partition("/")
        if kind == "params":
            params[f"{side}/{path}"] = array
        else:
            model_state[f"{side}/{name}"] = array
    wanted_params, wanted_state = (
        {path: leaf.shape for path, leaf in flatten(tree).items() if path.startswith(f"{side}/")}
        for tree in (state.all_params(), state.model_state)
    )
    params = _split_layers(params, wanted_params)
    resampled = _resize_positions(params, wanted_params, side, folder)
    _check_fits(folder, params | model_state, wanted_params | wanted_state)
    return TowerWeights(params, model_state, resampled)


def _resize_positions(
    params: dict[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]], side: str, folder: str
) -> list[str]:
    """Replaces positions for another number of tokens, and returns a description."""
    path, encoder = f"{side}/encoder/position_embeddings", read_description(folder).encoder
    given, rule = params.get(path), encoder.get("position_resize")
    if given is None or not rule or path not in wanted or given.shape == wanted[path]:
        return []
    count = wanted[path][0]
    if side == "text":
        resized: np.ndarray | None = resize_text_positions(given, count, rule)
    else:
        resized = resize_grid_positions(given, count, rule, int(encoder["class_token"]))
    if resized is None:
        return []
    params[path] = resized
    return [f"{side} tower from {folder}: {len(given)} positions resampled to {count} ({rule})"]


def _task_params(folder: str, leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Parameters of the tasks that both the model of a folder and the state have."""
    starts = tuple(f"tasks/{name}/" for name in read_model(folder).tasks)
    wanted = {path: leaf.shape for path, leaf in leaves.items() if path.startswith(starts)}
    kept = {path.split("/")[1] for path in wanted}
    found = {
        f"tasks/{name}": array
        for name, array in read_part(folder, "tasks").items()
        if name.split("/")[0] in kept
    }
    _check_fits(folder, found, wanted)
    return found


def _part_params(folder: str, part: str, leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of the similarity or the pair scorer of a folder; {} if it or the state has none."""
    wanted = {path: leaf.shape for path, leaf in leaves.items() if path.startswith(f"{part}/")}
    found = {f"{part}/{name}": array for name, array in read_part(folder, part).items()}
    if not wanted or not found:
        return {}
    _check_fits(folder, found, wanted)
    return found


def place(state: TrainState, weights: TowerWeights) -> TrainState:
    """Returns the state with checked weights instead of initial ones and the same sharding."""
    return dataclasses.replace(
        state,
        params=replace_arrays(state.params, weights.params),
        frozen=replace_arrays(state.frozen, weights.params),
        model_state=replace_arrays(state.model_state, weights.model_state),
    )


def describe(state: TrainState, weights: TowerWeights, source: InitConfig) -> str:
    """Returns the parts that come from the folders and those that do not, per tower."""
    lines = []
    for side, folder in named_folders(source).items():
        start = f"{side}/"
        paths = [path for path in flatten(state.all_params()) if path.startswith(start)]
        taken = [path for path in paths if path in weights.params]
        statistics = sum(path.startswith(start) for path in weights.model_state)
        count = sum(weights.params[path].size for path in taken)
        fresh = top_levels(set(paths) - set(taken))
        lines.append(
            f"{side} tower from {folder}: {len(taken)} arrays with {count:,} parameters, "
            f"{statistics} arrays of running statistics; at their initial values: {fresh or 'none'}"
        )
    return "\n".join([*lines, *weights.resampled])


def _split_layers(
    given: dict[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Splits BERT's stacked layers if the model keeps the lower ones separate."""
    split = {}
    for path, array in given.items():
        lower = path.replace("/layers/", "/lower_layers/", 1)
        if lower != path and lower in wanted:
            depth = wanted[lower][0]
            split[lower], split[path] = array[:depth], array[depth:]
        else:
            split[path] = array
    return split


def _check_fits(
    folder: str, given: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    # A head or projection that the folder lacks starts at random.
    parts = {"encoder", *map(_part, given)}
    needed = {path for path in wanted if _part(path) in parts}
    wrong = [f"{path} is missing from the folder" for path in sorted(needed - set(given))]
    wrong += [f"{path} is not in the model" for path in sorted(set(given) - set(wanted))]
    wrong += [
        f"{path} is {wanted[path]} in the model but {given[path].shape} in the folder"
        for path in sorted(set(given) & set(wanted))
        if given[path].shape != wanted[path]
    ]
    if wrong:
        raise UserError(
            f"{folder} does not fit the model; {len(wrong)} arrays differ, such as\n  "
            + "\n  ".join(wrong[:_SHOWN])
        )


def _part(path: str) -> str:
    return part_of(path).split("/")[1]
