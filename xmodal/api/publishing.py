"""Writes the folder that transformers or open_clip publishes of a model."""

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from etils import epath

from xmodal.api.exporting import compare_models
from xmodal.api.model_sources import Stored, make_model, read_folder
from xmodal.api.published_layouts import LIBRARIES, Layout, find_layout_of
from xmodal.core.errors import UserError
from xmodal.core.files import new_folder
from xmodal.core.mesh import make_mesh
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models import make_dual_encoder
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import MODALITIES, check_new, save_folder
from xmodal.pretrained.layer_rules import give_all, nest
from xmodal.pretrained.weight_files import write_safetensors

_POOLED = ("cls", "mean")  # Heads of sentence-transformers.


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
    stored = dataclasses.replace(stored, section=_in_float32(stored.section))
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
    head = {"name": "cls"}
    if modality == "text" and not section.get("projection") and section["head"]["name"] in _POOLED:
        head = dict(section["head"])
    else:
        print(f"The {modality} encoder is exported, without head and projection.")
    parts = {modality: {"encoder": section["encoder"], "head": head}}
    return dataclasses.replace(
        stored,
        section={**dict.fromkeys(MODALITIES), **parts, "similarity": {"name": "cosine"}},
        images=stored.images if modality == "image" else None,
        texts=stored.texts if modality == "text" else None,
        params={modality: {"encoder": stored.params[modality]["encoder"]}},
        model_state={modality: {}},
    )


def _in_float32(section: Any) -> Any:
    """Returns a section whose parts compute in float32, as the libraries do."""
    if not isinstance(section, Mapping):
        return section
    return {k: "float32" if k == "dtype" else _in_float32(x) for k, x in section.items()}


def _rename(stored: Stored, layout: Layout) -> dict[str, np.ndarray]:
    """Returns the arrays of the published model."""
    rules = [nest(f"{part}/", "", own).items() for part, own in layout.tables.items()]
    table = {path: rule for own in rules for path, rule in own}
    similarity = make_dual_encoder(stored.section).similarity.config
    numbers = {"log_scale": -math.log(similarity.temperature), "bias": similarity.bias or 0.0}
    arrays = {f"similarity/{name}": np.asarray(x, np.float32) for name, x in numbers.items()}
    if not numbers["bias"] and "similarity/bias" not in table:
        del arrays["similarity/bias"]
    states = [{name: tree} for name, state in stored.model_state.items() for tree in state.values()]
    for tree in (stored.params, *states):
        arrays |= {path: np.asarray(array) for path, array in leaves_by_path(tree).items()}
    arrays = {n: array for n, array in arrays.items() if n.partition("/")[0] in layout.tables}
    needed, found = ({"/".join(n.split("/")[:2]) for n in names} for names in (table, arrays))
    if missing := needed - found:
        raise UserError(f"A {layout.kind} has {min(missing)}, which {stored.source['name']} lacks.")
    return give_all(arrays, table)


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
    section = dict(found.section)
    if found.source["kind"] == "tower":  # Published without a head.
        (modality,) = found.params
        section[modality] = {**section[modality], "head": stored.section[modality]["head"]}
    found = dataclasses.replace(found, section=section, images=stored.images, texts=stored.texts)
    model = make_model(found, make_mesh(jax.local_devices()))
    compare_models(stored, model, "folder")
