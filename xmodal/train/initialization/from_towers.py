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

Arrays = dict[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]


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
    """Returns side -> folder for the towers that a config names, alone or in a model."""
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
    """
    of_params, of_state = (
        {path: tuple(leaf.shape) for path, leaf in flatten(tree).items()}
        for tree in (state.all_params(), state.model_state)
    )
    params: Arrays = {}
    model_state: Arrays = {}
    resampled: list[str] = []
    for side, folder in named_folders(source).items():
        arrays = read_weights(folder)
        own = {
            f"{side}/{name.removeprefix('params/')}": array
            for name, array in arrays.items()
            if name.startswith("params/")
        }
        statistics = {f"{side}/{k}": x for k, x in arrays.items() if not k.startswith("params/")}
        wanted = _below(side, of_params)
        own = _split_layers(own, wanted)
        resampled += _resize_positions(own, wanted, side, folder)
        _check_fits(folder, own | statistics, wanted | _below(side, of_state))
        params |= own
        model_state |= statistics
    if source.model:
        for part in ("tasks", "similarity", "cross_encoder"):
            params |= _part_params(source.model, part, of_params)
        for name, value in read_model(source.model).parameters.items():
            params[f"similarity/{name}"] = np.asarray(value, np.float32)
    both = [path for path in params if source.run and matches(source.include, path)]
    if both:
        raise UserError(
            f"config.init_from.include={list(source.include)} takes {both[0]} from "
            f"{source.run}, but {_SECTION} provides it too: narrow include."
        )
    return TowerWeights(params, model_state, resampled)


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
        paths = set(_below(side, flatten(state.all_params())))
        taken = paths & set(weights.params)
        count = sum(weights.params[path].size for path in taken)
        statistics = len(_below(side, weights.model_state))
        lines.append(
            f"{side} tower from {folder}: {len(taken)} arrays with {count:,} parameters, "
            f"{statistics} arrays of running statistics; at their initial values: "
            f"{top_levels(paths - taken) or 'none'}"
        )
    return "\n".join([*lines, *weights.resampled])


def _below(part: str, leaves: Mapping[str, Any]) -> dict[str, Any]:
    return {path: leaf for path, leaf in leaves.items() if path.startswith(f"{part}/")}


def _part_params(folder: str, part: str, shapes: Shapes) -> Arrays:
    """Arrays of a model's similarity, cross-encoder or tasks, for what the state has of these."""
    found = {f"{part}/{name}": array for name, array in read_part(folder, part).items()}
    wanted = _below(part, shapes)
    if part == "tasks":
        both = {path.split("/")[1] for path in found} & {path.split("/")[1] for path in wanted}
        found = {path: array for path, array in found.items() if path.split("/")[1] in both}
        wanted = {path: shape for path, shape in wanted.items() if path.split("/")[1] in both}
    if not wanted or not found:
        return {}
    _check_fits(folder, found, wanted)
    return found


def _split_layers(given: Arrays, wanted: Shapes) -> Arrays:
    """Splits BERT's stacked layers if the model keeps the lower ones separate."""
    split = {}
    for path, array in given.items():
        lower = path.replace("/layers/", "/lower_layers/", 1)
        depth = wanted[lower][0] if lower != path and lower in wanted else 0
        if depth:
            split[lower] = array[:depth]
        split[path] = array[depth:] if depth else array
    return split


def _resize_positions(params: Arrays, wanted: Shapes, side: str, folder: str) -> list[str]:
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


def _check_fits(folder: str, given: Mapping[str, np.ndarray], wanted: Shapes) -> None:
    """Raises an error unless arrays have the names and shapes of the parts that a folder has."""
    # A head or projection that the folder lacks starts at random.
    parts = {"encoder", *map(_part, given)}
    found = {path: array.shape for path, array in given.items()}
    needed = {path: shape for path, shape in wanted.items() if _part(path) in parts}
    if wrong := sorted(p for p in found | needed if found.get(p) != wanted.get(p)):
        lines = [
            f"{path} is {wanted.get(path, 'missing')} in the model but "
            f"{found.get(path, 'missing')} in the folder"
            for path in wrong[:_SHOWN]
        ]
        raise UserError(
            f"{folder} does not fit the model; {len(wrong)} arrays differ, such as\n  "
            + "\n  ".join(lines)
        )


def _part(path: str) -> str:
    return part_of(path).split("/")[1]
