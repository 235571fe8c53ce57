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
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
from etils import epath
from jax import export
from jax.extend import core
from jax.interpreters import partial_eval

from xmodal.api.bundles.bundle import Card
from xmodal.api.exporting import compare_models, describe, read_embeddings
from xmodal.api.model_sources import Stored, make_model
from xmodal.core.errors import UserError
from xmodal.core.files import format_json, new_folder
from xmodal.core.mesh import make_mesh
from xmodal.core.untrusted import picture_formats
from xmodal.data.pixels import resample
from xmodal.data.text.tokenizer_files import vocabulary_file
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.models.encoders.pixels import normalize
from xmodal.pretrained.folder import check_new
from xmodal.similarity import select_field

FORMAT = {"format": "xmodal onnx", "version": 1}
_COLUMNS = {"image": ("image",), "text": ("text_ids", "text_mask")}
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
    stored = read_embeddings(source, step, embeddings_only)
    stored = dataclasses.replace(stored, section=_in_float32(stored.section))
    # No layer has a special form for a platform of this name.
    encoders = make_dual_encoder(stored.section, Devices(1, "onnx"))
    if not encoders.similarity.function.inner_product:
        raise UserError(
            f"{source} compares embeddings by {encoders.similarity.name!r}, but an ONNX export has "
            "one vector per item, for 'dot' or 'cosine': export a bundle, with --format=bundle."
        )
    card = describe(stored, encoders.similarity, (), {}, shorter=())
    with new_folder(output) as temporary:
        for modality in encoders.towers:
            function = _convert(encoders, modality, stored, card)
            (temporary / f"{modality}.onnx").write_bytes(function)
        _write_others(temporary, stored, card, encoders)
    return card


def _write_others(folder: epath.Path, stored: Stored, card: Card, encoders: DualEncoder) -> None:
    """Writes all other files, and compares the export with its model."""
    from xmodal.api.onnx_search import OnnxModel

    weights = make_model(stored, make_mesh(jax.local_devices())).hash_weights()
    content = {**FORMAT, **dataclasses.asdict(card), "weights": weights}
    (folder / "onnx.json").write_text(format_json(content), encoding="utf-8")
    for path in _CODE:
        code = path.read_text(encoding="utf-8").replace("from xmodal.data.pixels.", "from ")
        code = code.replace("from xmodal.core.untrusted.", "from ")
        (folder / path.name.removeprefix("onnx_")).write_text(code, encoding="utf-8")
    exported, found = OnnxModel(pathlib.Path(folder)), None
    other = types.SimpleNamespace(embed_images=exported.embed_images, pairs=None)
    if stored.texts:
        tokenizer, file = make_tokenizer(*stored.texts), vocabulary_file(stored.texts[1])
        other.embed_texts = lambda texts: exported.embed_ids(*tokenizer.encode(texts))
        (folder / file.name).write_bytes(file.content)
        if found := tokenizer.as_json():
            (folder / file.name).unlink()
            (folder / "tokenizer.json").write_text(found, encoding="utf-8")
            other.embed_texts = exported.embed_texts
    (folder / "README.md").write_text(_describe(card, encoders, bool(found)), encoding="utf-8")
    compare_models(stored, other, "ONNX export", tolerance=1e-4)


def _in_float32(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return "float32" if section == "bfloat16" else section
    return {key: _in_float32(value) for key, value in section.items()}


def _convert(encoders: DualEncoder, modality: str, stored: Stored, card: Any) -> Any:
    """Returns one tower as a model of ONNX, for any number of items."""
    names, shape, dtype = _COLUMNS[modality], card.text and card.text.lengths, "int32"
    if modality == "image":
        shape, dtype = card.image.shape, card.image.dtype
    inputs = [jax.ShapeDtypeStruct((*export.symbolic_shape("N"), *shape), dtype)]
    weights = jax.tree.map(jnp.asarray, (stored.params[modality], stored.model_state[modality]))

    def embed(*columns: jax.Array) -> jax.Array:
        params, state = ({modality: each} for each in weights)
        given = dict(zip(names, columns, strict=True))
        found, _ = encoders.embed(modality, params, state, given)
        return select_field(found, encoders.similarity.config.field).astype(jnp.float32)

    # Loops are unrolled, and what the vectors do not depend on is left out.
    with jax.disable_jit():
        closed = jax.make_jaxpr(embed)(*inputs * len(names))
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True], instantiate=True)
    plain = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, closed.consts))
    options = {"model_name": modality, "input_names": names, "output_names": ["vectors"]}
    try:
        proto = _import_converter()(lambda *x: plain(*x)[0], inputs * len(names), **options)
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
    plugin_system.PLUGIN_REGISTRY |= {"stack": _Stack(), "reduce_window_max": _MaxPool()}
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)  # It warns of every shape.
    return jax2onnx.to_onnx


class _Stack:
    """Converts JAX's primitive `stack`, which jax2onnx lacks."""

    def lower(self, ctx: Any, eqn: Any) -> None:
        """Adds the nodes of an equation."""
        from jax2onnx.plugins.jax.lax._index_utils import _const_i64

        axis, build = eqn.params["axis"], ctx.builder
        out, axes = ctx.get_value_for_var(eqn.outvars[0]), _const_i64(ctx, np.array([axis]), "axes")
        parts = [
            build.Unsqueeze(ctx.get_value_for_var(x), axes, _outputs=[ctx.fresh_name("part")])
            for x in eqn.invars
        ]
        found = build.Concat(*parts, axis=axis, _outputs=[out.name])
        found.type, found.shape = out.type, out.shape
        ctx.bind_value_for_var(eqn.outvars[0], found)


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


def _describe(card: Card, encoders: DualEncoder, has_json: bool) -> str:
    """Returns the README of an export."""
    scale: dict[str, Any] = {}
    if card.image is not None and card.image.preprocessing.size:
        encoder: Any = encoders.towers["image"].module.encoder
        name = encoder.config.normalization
        ends = np.repeat([[0], [255]], 3, axis=1)[:, None, None]
        black, white = np.array(normalize(jnp.asarray(ends), name), float).reshape(2, 3)
        std = 255 / (white - black)
        scale = {"mean": (-black * std).round(3).tolist(), "std": std.round(3).tolist()}
        scale["bgr"] = name in ("caffe", "detector")
    template = jinja2.Template((_HERE / "onnx_readme.md").read_text(), trim_blocks=True)
    return template.render(card=card, has_json=has_json, **scale) + "\n"
