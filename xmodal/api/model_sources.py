"""Reads runs and folders of converted weights."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from jax.sharding import Mesh

from xmodal.api.model import Model
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.files import read_json
from xmodal.core.mesh import make_mesh, replicated
from xmodal.core.tree_paths import unflatten
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import parse_file, read_vocabulary
from xmodal.data.text.tokenizers import file_name, make_tokenizer
from xmodal.models import Devices, make_dual_encoder
from xmodal.pretrained.folder import (
    MODALITIES,
    read_description,
    read_model,
    read_part,
    read_weights,
)
from xmodal.pretrained.packaged_towers import locate_tower
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.pair_functions import make_pair_functions
from xmodal.train.tree import Tree

Texts = tuple[TextConfig, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Stored:
    """A model as stored in its folder.

    Attributes:
      source: `kind` ("run", "model" or "tower") and `name`; for a run also `step`, `metrics` and
        `datasets`, by evaluator.
      section: the section `config.model`.
      images: preprocessing of the images; None without an image tower.
      texts: preprocessing of the texts and the vocabulary; None without a text tower.
      params: parameters of the towers, and `similarity` and `cross_encoder`, if they have any.
      model_state: running statistics of the towers.
    """

    source: Mapping[str, Any]
    section: Mapping[str, Any]
    images: ImageConfig | None
    texts: Texts | None
    params: Tree
    model_state: Tree


def make_model(stored: Stored, mesh: Mesh | None = None) -> Model:
    """Returns a model on the devices of a mesh, by default all of this process."""
    mesh = make_mesh(jax.local_devices()) if mesh is None else mesh
    devices = mesh.devices.flatten()
    model = make_dual_encoder(stored.section, Devices(len(devices), devices[0].platform))
    weights = jax.device_put((stored.params, stored.model_state), replicated(mesh))
    return Model(
        stored.source["name"],
        model,
        *weights,
        mesh=mesh,
        images=stored.images,
        tokenizer=stored.texts and make_tokenizer(*stored.texts),
        step=stored.source.get("step"),
        pairs=make_pair_functions(model),
    )


def read_folder(source: str | os.PathLike, step: int | str) -> Stored:
    """Returns the model in a folder, as NumPy arrays, without the parameters of tasks."""
    name = os.fspath(source)
    folder = epath.Path(located := locate_tower("source", name))
    if not folder.exists():
        raise UserError(f"{name} does not exist; a model of the Hub is hf://OWNER/NAME.")
    config = folder / "config.json"  # A model of transformers has one as well.
    if config.exists() and "model_type" not in read_json(config, "copy it again."):
        return _read_run(located, step)
    if not any((folder / f"{kind}.json").exists() for kind in ("model", "tower")):
        # It imports readers of other formats, which no other folder needs.
        from xmodal.pretrained.converters import convert_published

        try:
            folder = convert_published(located)
        except UserError as error:
            raise UserError(
                f"{name} is not a run of xmodal.main (config.json), a folder of xmodal convert "
                "(model.json, tower.json) or a bundle of xmodal export (bundle.json), nor does it "
                f"open as a published CLIP or SigLIP: {error}"
            ) from error
    if step != "best":
        raise UserError(f"{source} is not a run, and has no steps; remove step={step!r}.")
    return _read_converted(folder, name)


def _read_run(run: str, step: int | str) -> Stored:
    number = run_folder.resolve_step(run, step)
    config, metrics = run_folder.load_run(run), run_folder.load_metrics(run, number)
    (params, model_state), section = checkpoints.read_model(run, number), config.model.to_dict()
    modalities = [modality for modality in MODALITIES if section.get(modality) is not None]
    image = text = None
    if "image" in modalities:
        image = read(ImageConfig, "config.data.image", config.data.image)
    if "text" in modalities:
        text = read(TextConfig, "config.data.text", config.data.text)
    datasets = {
        name: (entry.get("data") or {}).get("dataset", config.data.get("dataset", ""))
        for name, entry in config.get("evals", {}).items()
    }
    return Stored(
        {"name": run, "kind": "run", "step": number, "metrics": metrics, "datasets": datasets},
        section,
        image,
        text and (text, read_vocabulary(text.vocabulary)),
        {key: params[key] for key in (*modalities, "similarity", "cross_encoder") if key in params},
        {modality: model_state.get(modality, {}) for modality in modalities},
    )


def _read_converted(folder: epath.Path, name: str) -> Stored:
    """Returns the model or tower in a folder of `xmodal convert`."""
    parts: dict[str, Any] = {}
    section: dict[str, Any]
    if (folder / "model.json").exists():
        kind, model = "model", read_model(folder)
        towers, section = dict(model.towers), model.section()
        places = {modality: folder / modality for modality in MODALITIES}
        numbers = {key: np.float32(x) for key, x in model.parameters.items()}
        parts["similarity"] = read_part(folder, "similarity") | numbers
        parts["cross_encoder"] = read_part(folder, "cross_encoder")
    else:
        kind, tower = "tower", read_description(folder)
        modality = "text" if "vocab_size" in tower.encoder else "image"
        towers, places = {modality: tower}, {modality: folder}
        layers = {"encoder": dict(tower.encoder), "head": tower.section()["head"]}
        section = {**dict.fromkeys(MODALITIES), modality: layers, "similarity": {"name": "cosine"}}
    inputs = {modality: dict(tower.preprocessing) for modality, tower in towers.items()}
    for modality, given in inputs.items():
        if normalization := given.pop("normalization", None):
            section[modality]["encoder"].setdefault("normalization", normalization)
    images, texts = inputs.get("image"), None
    if "text" in towers:
        config = read(TextConfig, f"{places['text']}/tower.json", inputs["text"])
        file, files = file_name(config.tokenizer), towers["text"].files
        texts = config, parse_file(file, files[file], f"{file} of {places['text']}")
    trees = {modality: unflatten(read_weights(place)) for modality, place in places.items()}
    params = {modality: tree.pop("params", {}) for modality, tree in trees.items()}
    return Stored(
        {"name": name, "kind": kind},
        section,
        None if images is None else read(ImageConfig, f"{places['image']}/tower.json", images),
        texts,
        params | {part: unflatten(arrays) for part, arrays in parts.items() if arrays},
        trees,
    )
