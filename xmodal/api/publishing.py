"""Writes the folder that transformers or open_clip publishes of a model."""

import dataclasses
import json
import math
import os
import tempfile

import numpy as np
from etils import epath

from xmodal.api.exporting import compare_models, in_float32
from xmodal.api.model_sources import Stored, make_model, read_folder
from xmodal.api.published_layouts import LIBRARIES, Layout, find_layout_of
from xmodal.core.errors import UserError
from xmodal.core.files import new_folder
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models import make_dual_encoder
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import MODALITIES, check_new, save_folder
from xmodal.pretrained.layer_rules import give_all
from xmodal.pretrained.weight_files import write_safetensors


def export_published(
    source: str | os.PathLike,
    output: str | os.PathLike,
    *,
    library: str,
    step: int | str = "best",
    tower: str = "",
) -> None:
    """Writes a folder that a library opens, and compares it with the model.

    Args:
      source: see `xmodal.load`, but no bundle.
      output: the new folder.
      library: a key of `LIBRARIES`.
      step: checkpoint of a run: a number, `best` or `latest`.
      tower: "image" or "text" for the encoder of this tower alone; "" for the whole model.
    """
    check_new(output)
    stored = read_folder(source, step)
    given = [name for name in MODALITIES if stored.section.get(name) is not None]
    if tower and tower not in given:
        raise UserError(f"{source} has no {tower} tower.")
    if tower or len(given) == 1:
        stored = _take_tower(stored, tower or given[0])
    stored = in_float32(stored)
    layout = find_layout_of(stored, library)
    arrays = _rename(stored, layout)
    with new_folder(output) as temporary:
        write_safetensors(temporary / LIBRARIES[library], arrays, {"format": "pt"})
        for name, content in layout.files.items():
            raw = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_bytes(raw)
        try:
            _check(stored, temporary, layout.kind)
        except UserError as error:
            reason = str(error).removeprefix(f"{temporary}: ")
            raise UserError(f"{library} has no model like {source}: {reason}") from error


def _take_tower(stored: Stored, modality: str) -> Stored:
    """Returns the encoder of a tower, with the pooling of a sentence encoder."""
    section = stored.section[modality]
    head = {"name": "mean" if modality == "image" else "cls"}  # As converted.
    is_pooled = section["head"]["name"] in ("cls", "mean")  # As by sentence-transformers.
    if modality == "text" and is_pooled and not section.get("projection"):
        head = dict(section["head"])
    parts = {modality: {"encoder": section["encoder"], "head": head}}
    return dataclasses.replace(
        stored,
        section={**dict.fromkeys(MODALITIES), **parts, "similarity": {"name": "cosine"}},
        images=stored.images if modality == "image" else None,
        texts=stored.texts if modality == "text" else None,
        params={modality: {"encoder": stored.params[modality]["encoder"]}},
        model_state={modality: {}},
    )


def _rename(stored: Stored, layout: Layout) -> dict[str, np.ndarray]:
    """Returns the arrays of the published model."""
    config = make_dual_encoder(stored.section).similarity.config
    arrays = {"similarity/log_scale": np.float32(-math.log(config.temperature))}
    if config.bias or "similarity/bias" in layout.table:
        arrays["similarity/bias"] = np.float32(config.bias or 0)
    states = [{name: tree} for name, state in stored.model_state.items() for tree in state.values()]
    for tree in (stored.params, *states):
        arrays |= leaves_by_path(tree)
    parts = {path.partition("/")[0] for path in layout.table}
    arrays = {path: np.asarray(x) for path, x in arrays.items() if path.partition("/")[0] in parts}
    for path in layout.table:
        if "/projection" in path and not any(name.startswith(path) for name in arrays):
            raise UserError(f"A {layout.kind} has {path}, which {stored.source['name']} lacks.")
    return give_all(arrays, layout.table)


def _check(stored: Stored, folder: epath.Path, kind: str) -> None:
    """Raises an error if the folder, converted again, is another model."""
    with tempfile.TemporaryDirectory() as scratch:
        converted = epath.Path(scratch) / "converted"
        save_folder(converted, *convert(kind, folder))
        found = read_folder(converted, "best")
    both = [x for x in (stored.images, found.images) if x and x.eval_transform != "big_vision"]
    edges = [f"{x.size} of {round(x.size / x.eval_crop)} pixels" for x in both if not x.patch]
    if len({*edges}) > 1:
        raise UserError(f"its image processor takes {edges[1]}, not {edges[0]}.")
    found = dataclasses.replace(found, images=stored.images, texts=stored.texts)
    compare_models(stored, make_model(found), "folder")
