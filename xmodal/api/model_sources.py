"""Reads runs and folders of converted weights."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from etils import epath

from xmodal.api.model import Model
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import unflatten
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.evals.scores.second_stage import PairReranker
from xmodal.models import Devices, make_dual_encoder
from xmodal.pretrained.folder import read_description, read_weights
from xmodal.pretrained.model_folder import SIDES, read_model, read_part
from xmodal.pretrained.packaged_towers import locate_tower
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.inherit import inherit
from xmodal.train.pair_functions import make_pair_functions
from xmodal.train.tree import Tree, merge


@dataclasses.dataclass(frozen=True)
class Stored:
    """A model as stored in its folder.

    Attributes:
      source: `kind` ("run", "model" or "tower") and `name`; for a run also `step` and `metrics`.
      config: config with `model` and `data`.
      params: parameters of the towers, and `similarity`.
      model_state: running statistics of the towers.
    """

    source: Mapping[str, Any]
    config: ml_collections.ConfigDict
    params: Tree
    model_state: Tree

    def images(self) -> ImageConfig | None:
        """Returns the preprocessing of the images; None without an image side."""
        if self.config.model.get("image") is None:
            return None
        return read(ImageConfig, "config.data.image", self.config.data.image)

    def texts(self) -> tuple[TextConfig, Sequence[str]] | None:
        """Returns the preprocessing of the texts and the vocabulary; None without a text side."""
        if self.config.model.get("text") is None:
            return None
        text = read(TextConfig, "config.data.text", self.config.data.text)
        return text, read_vocabulary(text.vocabulary)

    def first_stage_weight(self) -> float | None:
        """Returns that of the run's rerankers of its own towers; None if it is not one value."""
        values = set()
        for name, evaluator in self.config.get("evals", {}).items():
            given = dict(evaluator.get("reranker") or {})
            if given.pop("name", "") == "cross_encoder":
                reranker = read(PairReranker, f"config.evals.{name}.reranker", given)
                values |= set() if reranker.first_stage else {reranker.first_stage_weight}
        return values.pop() if len(values) == 1 else None


def read_folder(source: str | os.PathLike, step: int | str) -> Stored:
    """Returns the model in a folder, as NumPy arrays, without the parameters of tasks.

    Raises:
      UserError: see `xmodal.load`.
    """
    folder = epath.Path(source)
    if _is_run(folder):
        number = run_folder.resolve_step(os.fspath(source), step)
        metrics = run_folder.load_metrics(os.fspath(source), number)
        origin = {"kind": "run", "step": number, "metrics": metrics}
        config, weights = run_folder.load_run(os.fspath(source)), _run_weights(source, number)
    elif step != "best" and any((folder / f"{kind}.json").exists() for kind in ("model", "tower")):
        raise UserError(f"{source} is not a run, and has no steps; remove step={step!r}.")
    elif (folder / "model.json").exists():
        origin, config = {"kind": "model"}, _model_config(source)
        weights = _tower_weights({side: folder / side for side in SIDES})
        numbers = {key: np.float32(x) for key, x in read_model(source).parameters.items()}
        if learned := unflatten(read_part(source, "similarity") | numbers):
            weights[0]["similarity"] = learned
        if scorer := read_part(source, "cross_encoder"):
            weights[0]["cross_encoder"] = unflatten(scorer)
    elif (folder / "tower.json").exists():
        side = "text" if "vocab_size" in read_description(source).encoder else "image"
        origin, config = {"kind": "tower"}, _tower_config(side, source)
        weights = _tower_weights({side: folder})
    else:
        stored = read_folder(_converted(source), step)
        return dataclasses.replace(stored, source={**stored.source, "name": os.fspath(source)})
    params, model_state = weights
    sides = [side for side in SIDES if config.model.get(side) is not None]
    kept = (*sides, "similarity", "cross_encoder")
    params = {key: params[key] for key in kept if key in params}
    model_state = {side: model_state.get(side, {}) for side in sides}
    return Stored({"name": os.fspath(source), **origin}, config, params, model_state)


def _is_run(folder: epath.Path) -> bool:
    """Whether a folder has the config of a run, not that of a model of transformers."""
    path = folder / "config.json"
    if not path.exists():
        return False
    try:
        content = parse_json_text(path.read_text())
        return not (isinstance(content, dict) and "model_type" in content)
    except ValueError:  # The error of a run names the damage.
        return True


def _converted(source: str | os.PathLike) -> epath.Path:
    """Returns the converted folder of a published model, or of a tower of an installed package."""
    if (tower := locate_tower("source", os.fspath(source))) != os.fspath(source):
        return epath.Path(tower)
    # It imports readers of other formats, which no other folder needs.
    from xmodal.pretrained.published_models import NotPublishedError, convert_once

    try:
        return convert_once(source)
    except NotPublishedError as error:
        if epath.Path(source).exists() and not epath.Path(source).is_dir():
            raise  # A file is nothing else.
        raise UserError(
            f"{source} is not a run of xmodal.main (config.json), a folder of xmodal convert "
            "(model.json, tower.json) or a bundle of xmodal export (bundle.json), nor does it open "
            f"as a published CLIP or SigLIP: {error}"
        ) from error


def make_model(stored: Stored) -> Model:
    """Returns a model on all devices of this process."""
    mesh = mesh_lib.make_mesh(jax.local_devices())
    devices = mesh.devices.flatten()
    weights = (stored.params, stored.model_state)
    params, model_state = jax.device_put(weights, mesh_lib.replicated(mesh))
    name, number, texts = stored.source["name"], stored.source.get("step"), stored.texts()
    model = make_dual_encoder(stored.config.model, Devices(len(devices), devices[0].platform))
    return Model(
        name if number is None else f"{name} step {number}",
        model,
        params,
        model_state,
        mesh=mesh,
        images=stored.images(),
        tokenizer=None if texts is None else make_tokenizer(*texts),
        source=name,
        step=number,
        pairs=make_pair_functions(model),
        first_stage_weight=stored.first_stage_weight(),
    )


def _run_weights(source: str | os.PathLike, step: int) -> tuple[Tree, Tree]:
    run = os.fspath(source)
    checkpoints.check_whole(run, step, ("params", "model_state"))
    trained, frozen, model_state = (
        checkpoints.read_tree(run, at, item)
        for at, item in ((step, "params"), (None, "frozen"), (step, "model_state"))
    )
    return merge(trained, frozen), model_state


def _tower_weights(folders: Mapping[str, epath.Path]) -> tuple[Tree, Tree]:
    trees = {side: unflatten(read_weights(folder)) for side, folder in folders.items()}
    params = {side: tree.pop("params", {}) for side, tree in trees.items()}
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
