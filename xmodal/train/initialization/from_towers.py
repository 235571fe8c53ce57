"""Weights of published towers and models, from folders written by `xmodal convert`."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging
from etils import epath

from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.core.hub import locate
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models.encoders.position_resize import resize_grid_positions, resize_text_positions
from xmodal.pretrained.folder import (
    MODALITIES,
    read_description,
    read_model,
    read_part,
    read_weights,
)
from xmodal.pretrained.packaged_towers import locate_tower
from xmodal.train.sections import InitConfig, TowersConfig
from xmodal.train.tree import TrainState, describe_differences, part_of, top_levels

_SECTION = "config.init_from.towers"

Arrays = dict[str, np.ndarray]
Shapes = Mapping[str, Any]


def with_local_folders(source: InitConfig) -> InitConfig:
    """Returns `config.init_from` with the folders of `hf://OWNER/NAME`, `pip:NAME` and of weights
    that are published in another format, which are converted once.
    """
    towers = {
        modality: locate_tower(f"{_SECTION}.{modality}", folder)
        for modality, folder in dataclasses.asdict(source.towers).items()
    }
    model = _convert_published(locate(source.model))
    run = locate(source.run)
    return dataclasses.replace(source, run=run, model=model, towers=TowersConfig(**towers))


def _convert_published(folder: str) -> str:
    """The folder that a published model is converted into; a converted folder itself."""
    path = epath.Path(folder)
    is_converted = any((path / f"{kind}.json").exists() for kind in ("model", "tower"))
    if not folder or not path.exists() or is_converted:
        return folder
    # It imports readers of other formats, which no other config needs.
    from xmodal.pretrained.converters import convert_published

    processes.first_does("convert the published model", lambda: convert_published(path))
    # Other hosts may not see the cache of the first.
    return os.fspath(convert_published(path))


def named_folders(source: InitConfig) -> dict[str, str]:
    """Returns modality -> folder for the towers that a config names, alone or in a model.

    Args:
      source: result of `with_local_folders`.
    """
    if source.model:
        return {modality: os.path.join(source.model, modality) for modality in MODALITIES}
    return {modality: path for modality, path in dataclasses.asdict(source.towers).items() if path}


def load_towers(state: TrainState, source: InitConfig) -> Arrays:
    """Returns the weights that `config.init_from.towers` or `.model` names, checked.

    Logs what is taken from every folder.

    Args:
      state: shapes of the state they are for.
      source: result of `with_local_folders`.

    Returns:
      The float32 arrays by path in a state's parameters and model state, with BERT's lower layers
      split off if the model splits them off.
    """
    params, found = state.flat_params(), Arrays()
    for modality, folder in named_folders(source).items():
        wanted = _below(modality, params | leaves_by_path(state.model_state))
        named = read_weights(folder).items()
        own = {f"{modality}/{name.removeprefix('params/')}": array for name, array in named}
        own = _split_layers(own, wanted)
        resized = _resize_positions(own, wanted, modality, folder)
        _check_fits(folder, own, wanted)
        found |= own
        logging.info(
            "%s tower from %s: %d arrays; at their initial values: %s%s",
            *(
                modality,
                folder,
                len(own),
                top_levels(wanted.keys() - own.keys()) or "none",
                resized,
            ),
        )
    if source.model:
        for part in ("tasks", "similarity", "cross_encoder"):
            found |= _part_params(source.model, part, _below(part, params))
        for name, value in read_model(source.model).parameters.items():
            found[f"similarity/{name}"] = np.asarray(value, np.float32)
    return found


def _below(part: str, leaves: Shapes) -> dict[str, Any]:
    return {path: leaf for path, leaf in leaves.items() if path.startswith(f"{part}/")}


def _part_params(folder: str, part: str, wanted: Shapes) -> Arrays:
    """Arrays of a model's similarity, cross-encoder or tasks, for what the state has of these."""
    depth = 2 if part == "tasks" else 1
    found = {f"{part}/{name}": array for name, array in read_part(folder, part).items()}

    def common(leaves: Shapes, others: Shapes) -> dict[str, Any]:
        names = [path.split("/")[:depth] for path in others]
        return {path: leaf for path, leaf in leaves.items() if path.split("/")[:depth] in names}

    found, wanted = common(found, wanted), common(wanted, found)
    _check_fits(folder, found, wanted)
    return found


def _split_layers(given: Arrays, wanted: Shapes) -> Arrays:
    """Splits BERT's stacked layers if the model keeps the lower ones separate."""
    split = {}
    for path, array in given.items():
        lower = path.replace("/layers/", "/lower_layers/", 1)
        depth = wanted[lower].shape[0] if lower != path and lower in wanted else 0
        if depth:
            split[lower] = array[:depth]
        split[path] = array[depth:] if depth else array
    return split


def _resize_positions(given: Arrays, wanted: Shapes, modality: str, folder: str) -> str:
    """Replaces positions for another number of tokens, and returns a description."""
    path, encoder = f"{modality}/encoder/position_embeddings", read_description(folder).encoder
    old, rule = given.get(path), encoder.get("position_resize")
    if old is None or not rule or path not in wanted or old.shape == wanted[path].shape:
        return ""
    count = wanted[path].shape[0]
    if modality == "text":
        resized: np.ndarray | None = resize_text_positions(old, count, rule)
    else:
        resized = resize_grid_positions(old, count, rule, int(encoder["class_token"]))
    if resized is None:
        return ""
    given[path] = resized
    return f"; {len(old)} positions resampled to {count} ({rule})"


def _check_fits(folder: str, given: Shapes, wanted: Shapes) -> None:
    """Raises an error unless arrays have the names and shapes of the parts that a folder has."""
    # A head or projection that the folder lacks starts at random.
    parts = {"encoder", *map(_part, given)}
    needed = {path: leaf for path, leaf in wanted.items() if _part(path) in parts}
    if differences := describe_differences(needed, given):
        raise UserError(f"{folder} does not fit the model; {differences}")


def _part(path: str) -> str:
    return part_of(path).split("/")[1]
