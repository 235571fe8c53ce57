"""Writes the towers of a model as ONNX, with the files that embed without JAX and without xmodal.

onnx.json         the card, as in a bundle, and the hash of the weights
image.onnx        `image` [N, ...] -> `vectors` float32 [N, D]
text.onnx         `text_ids` and `text_mask` int32 [N, T] -> `vectors` float32 [N, D]
tokenizer.json    of `tokenizers`; another tokenizer has its own file, such as vocab.txt
README.md         preprocessing and metrics
search.py         answers queries over an index, with resample.py and picture_formats.py
"""

import dataclasses
import importlib
import logging
import os
import pathlib
import pkgutil
import re
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jinja2
from etils import epath
from jax import export
from jax.extend import core
from jax.interpreters import partial_eval

from xmodal.api.bundles.bundle import Card
from xmodal.api.exporting import compare_models, describe, in_float32, read_embeddings
from xmodal.api.model_sources import Stored, make_model
from xmodal.core.errors import UserError
from xmodal.core.files import format_json, new_folder
from xmodal.core.untrusted import picture_formats
from xmodal.data.pixels import resample
from xmodal.data.text.tokenizer_files import vocabulary_file
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.pretrained.folder import check_new
from xmodal.similarity import select_field

_HERE = pathlib.Path(__file__).parent
_CODE = (
    _HERE / "onnx_search.py",
    *(pathlib.Path(str(x.__file__)) for x in (resample, picture_formats)),
)


def export_onnx(
    source: str | os.PathLike,
    output: str | os.PathLike,
    *,
    step: int | str = "best",
    embeddings_only: bool = False,
) -> Card:
    """Writes the towers of a model as ONNX, and compares them with the model.

    jax2onnx converts the towers. Layers in bfloat16 are exported in float32.

    Args:
      source: see `exporting.export_model`.
      output: the new folder.
      step: see `exporting.export_model`.
      embeddings_only: see `exporting.export_model`.

    Raises:
      UserError: ONNX cannot hold a tower, or the embeddings differ by more than 1e-4.
    """
    check_new(output)
    stored = in_float32(read_embeddings(source, step, embeddings_only))
    # No layer has a special form for a platform of this name.
    encoders = make_dual_encoder(stored.section, Devices(1, "onnx"))
    if not encoders.similarity.function.inner_product:
        raise UserError(
            f"{source} compares embeddings by {encoders.similarity.name!r}, but an ONNX export has "
            "one vector per item, for 'dot' or 'cosine': export a bundle, with --format=bundle."
        )
    card = describe(stored, encoders.similarity)
    with new_folder(output) as temporary:
        for modality in encoders.towers:
            function = _convert(encoders, modality, stored, card)
            (temporary / f"{modality}.onnx").write_bytes(function)
        _write_others(temporary, stored, card)
    return card


def _write_others(folder: epath.Path, stored: Stored, card: Card) -> None:
    """Writes all other files, and compares the export with its model."""
    from xmodal.api.onnx_search import OnnxModel

    content = {"format": "xmodal onnx", "version": 1, **dataclasses.asdict(card)}
    content["weights"] = make_model(stored).hash_weights()
    (folder / "onnx.json").write_text(format_json(content), encoding="utf-8")
    for path in _CODE:
        code = re.sub(r"from xmodal\.[\w.]+\.(\w+) import", r"from \1 import", path.read_text())
        (folder / path.name.removeprefix("onnx_")).write_text(code)
    exported, found = OnnxModel(pathlib.Path(folder)), None
    other = types.SimpleNamespace(embed_images=exported.embed_images, pairs=None)
    if stored.texts:
        tokenizer, file = make_tokenizer(*stored.texts), vocabulary_file(stored.texts[1])
        if found := tokenizer.as_json():
            (folder / "tokenizer.json").write_text(found, encoding="utf-8")
            other.embed_texts = exported.embed_texts
        else:
            (folder / file.name).write_bytes(file.content)
            other.embed_texts = lambda texts: exported.embed_ids(*tokenizer.encode(texts))
    template = jinja2.Template((_HERE / "onnx_readme.md").read_text(), trim_blocks=True)
    readme = template.render(card=card, has_json=bool(found)) + "\n"
    (folder / "README.md").write_text(readme, encoding="utf-8")
    compare_models(stored, other, "ONNX export", tolerance=1e-4)


def _convert(encoders: DualEncoder, modality: str, stored: Stored, card: Any) -> Any:
    """Returns one tower as a model of ONNX, for any number of items."""
    if modality == "image":
        names, shape, dtype = ("image",), card.image.shape, card.image.dtype
    else:
        names, shape, dtype = ("text_ids", "text_mask"), card.text.lengths[-1:], "int32"
    inputs = [jax.ShapeDtypeStruct((*export.symbolic_shape("N"), *shape), dtype)] * len(names)
    params, state = jax.tree.map(jnp.asarray, (stored.params, stored.model_state))

    def embed(*columns: jax.Array) -> jax.Array:
        given = dict(zip(names, columns, strict=True))
        found, _ = encoders.embed(modality, params, state, given)
        return select_field(found, encoders.similarity.config.field).astype(jnp.float32)

    # Loops are unrolled, and what the vectors do not depend on is left out.
    with jax.disable_jit():
        closed = jax.make_jaxpr(embed)(*inputs)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True], instantiate=True)
    plain = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, closed.consts))
    options = {"model_name": modality, "input_names": names, "output_names": ["vectors"]}
    try:
        proto = _import_converter()(lambda *x: plain(*x)[0], inputs, **options)
        return proto.SerializeToString()
    except Exception as error:  # The library raises errors of all kinds.
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"The {modality} tower of {stored.source['name']} cannot be exported to ONNX: {reason}"
            ". Export a bundle, with --format=bundle."
        ) from error


def _import_converter() -> Callable[..., Any]:
    """Returns `jax2onnx.to_onnx`, with its conversions of JAX's primitives alone.

    Those of functions of jax.numpy and flax replace these functions, and fail for some of ours.
    """
    import jax2onnx
    from jax2onnx.plugins import plugin_system
    from jax2onnx.plugins.jax import core as of_core
    from jax2onnx.plugins.jax import lax as of_lax

    for package in (of_core, of_lax):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    plugin_system._already_imported_plugins = True
    plugin_system.PLUGIN_REGISTRY["reduce_window_max"] = _MaxPool()
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)  # It warns of every shape.
    return jax2onnx.to_onnx


class _MaxPool:
    """Converts pooling of maps [N, H, W, C]: jax2onnx pools four axes, and onnxruntime three."""

    def lower(self, ctx: Any, eqn: Any) -> None:
        """Adds the nodes of an equation."""
        x, y = (ctx.get_value_for_var(each[0]) for each in (eqn.invars, eqn.outvars))
        names = [ctx.fresh_name("map") for _ in range(2)]
        sides, build = eqn.params["padding"][1:3], ctx.builder
        x = build.Transpose(x, perm=[0, 3, 1, 2], _outputs=names[:1])
        x = build.MaxPool(
            x, kernel_shape=list(eqn.params["window_dimensions"][1:3]),
            strides=list(eqn.params["window_strides"][1:3]),
            pads=[side[end] for end in (0, 1) for side in sides], _outputs=names[1:],
        )  # fmt: skip
        found = build.Transpose(x, perm=[0, 2, 3, 1], _outputs=[y.name])
        found.type, found.shape = y.type, y.shape
        ctx.bind_value_for_var(eqn.outvars[0], found)
