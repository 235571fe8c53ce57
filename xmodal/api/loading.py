"""Opens a run, or a folder of converted weights, as a `Model`."""

import os
from collections.abc import Mapping
from typing import Any

import jax
import ml_collections
import numpy as np
from etils import epath

from xmodal import mesh as mesh_lib
from xmodal.api.model import Model
from xmodal.compilation_cache import use_compilation_cache
from xmodal.config import UserError, read
from xmodal.console import quietly
from xmodal.models import make_dual_encoder
from xmodal.models.devices import Devices
from xmodal.preprocessing import ImageConfig, TextConfig, make_tokenizer, read_vocabulary
from xmodal.pretrained.folder import read_description, read_weights
from xmodal.pretrained.model_folder import SIDES, read_model
from xmodal.training import checkpoints
from xmodal.training.inheritance import inherit
from xmodal.training.tree import Tree, merge, unflatten


def load(source: str | os.PathLike, *, step: int | str = "best") -> Model:
    """Returns the model in a folder, on all devices of this process.

    Args:
      source: a run, as `runs/quickstart`, or a model or tower of `xmodal.convert_weights`; local
        or on a bucket.
      step: of a run, the checkpoint: a number, `best` or `latest`.

    Raises:
      UserError: the folder is none of these, or damaged, or has no such checkpoint.
    """
    use_compilation_cache()
    folder = epath.Path(source)
    if (folder / "config.json").exists():
        name = f"{source} step {checkpoints.resolve_step(os.fspath(source), step)}"
        config, weights = checkpoints.load_run(os.fspath(source)), _run_weights(source, step)
    elif (folder / "model.json").exists():
        name, config = os.fspath(source), _model_config(source)
        weights = _tower_weights({side: folder / side for side in SIDES})
        if numbers := read_model(source).parameters:
            weights[0]["similarity"] = {key: np.float32(x) for key, x in numbers.items()}
    elif (folder / "tower.json").exists():
        side = "text" if "vocab_size" in read_description(source).encoder else "image"
        name, config = os.fspath(source), _tower_config(side, source)
        weights = _tower_weights({side: folder})
    else:
        raise UserError(
            f"{source} is no run of xmodal.main and no folder of xmodal.convert_weights: it has "
            "neither config.json, model.json nor tower.json."
        )
    return _make_model(name, config, *weights)


def _make_model(
    name: str, config: ml_collections.ConfigDict, params: Tree, model_state: Tree
) -> Model:
    mesh = mesh_lib.make_mesh(jax.local_devices())
    devices = mesh.devices.flatten()
    model = make_dual_encoder(config.model, Devices(len(devices), devices[0].platform))
    replicated = mesh_lib.replicated(mesh)
    wanted = (*model.towers, *(("similarity",) if model.similarity.parameters else ()))
    params = {key: params[key] for key in wanted}  # without those of tasks
    model_state = {side: model_state.get(side, {}) for side in model.towers}
    params, model_state = jax.device_put((params, model_state), replicated)
    images = tokenizer = None
    if "image" in model.towers:
        images = read(ImageConfig, "config.data.image", config.data.image)
    if "text" in model.towers:
        text = read(TextConfig, "config.data.text", config.data.text)
        tokenizer = make_tokenizer(text, read_vocabulary(text.vocabulary))
    return Model(name, model, params, model_state, mesh=mesh, images=images, tokenizer=tokenizer)


def _run_weights(source: str | os.PathLike, step: int | str) -> tuple[Tree, Tree]:
    run = os.fspath(source)
    number = checkpoints.resolve_step(run, step)
    with quietly():  # Orbax warns of metadata that no version of it has written.
        trained, frozen, model_state = (
            checkpoints.read_tree(run, at, item)
            for at, item in ((number, "params"), (None, "frozen"), (number, "model_state"))
        )
    return merge(trained, frozen), model_state


def _tower_weights(folders: Mapping[str, epath.Path]) -> tuple[Tree, Tree]:
    trees = {side: unflatten(read_weights(folder)) for side, folder in folders.items()}
    params = {side: tree.pop("params") for side, tree in trees.items()}
    return params, trees


def _model_config(source: str | os.PathLike) -> ml_collections.ConfigDict:
    config = _bare_config({"model": os.fspath(source)}, SIDES)
    config.model = {"image": None, "text": None, "similarity": {"name": ""}}
    return inherit(config)


def _tower_config(side: str, source: str | os.PathLike) -> ml_collections.ConfigDict:
    config = _bare_config({"towers": {side: os.fspath(source)}}, (side,))
    config.model[side] = {"encoder": {}, "head": {}}
    if longest := read_description(source).preprocessing.get("max_length"):
        config.data[side].max_length = longest
    return inherit(config)


def _bare_config(init_from: Mapping[str, Any], sides: tuple[str, ...]) -> ml_collections.ConfigDict:
    """A config that leaves everything to the weights."""
    return ml_collections.ConfigDict(
        {
            "model": {"image": None, "text": None, "similarity": {"name": "cosine"}},
            "data": {side: {} if side in sides else None for side in SIDES},
            "init_from": init_from,
        },
        type_safe=False,
    )
