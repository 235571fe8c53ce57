"""CLIP and SigLIP of any size, as their authors, open_clip and transformers publish them.

openai/CLIP (TorchScript archives and state dicts), mlfoundations/open_clip, transformers, and
google-research/big_vision (SigLIP and SigLIP 2 of fixed sizes).
"""

import re
from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained.clip_layouts import ClipLayout, find_layout
from xmodal.pretrained.clip_settings import SIDES, ClipSettings, Defaults, read_settings
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import grid_side
from xmodal.pretrained.torch_models import Arrays, Published
from xmodal.pretrained.variants import MODELS
from xmodal.pretrained.weight_files import WeightSource

EXPECTED_UNEXPECTED = (
    # Sizes that archives of OpenAI store like weights.
    r"(.*\.)?(input_resolution|context_length|vocab_size)$",
    r"(.*\.)?position_ids$",
    # Masks of causal attention in old files, and other contents of training checkpoints.
    r"(.*\.)?attn_mask$",
    r"(optimizer|scaler|opt)[./]",
)
"""Arrays of published files that the towers have no use for, as regular expressions."""

_CLIP = Defaults("quick_gelu", {"image": 12, "text": 8}, 1e-5, "clip", "clip")
_SIGLIP = Defaults("gelu_pytorch_tanh", dict.fromkeys(SIDES, 12), 1e-6, "squash", "inception")
# Widths whose heads are not 64 wide: ViT-H, g and bigG; So400m and g-opt of SigLIP.
_HEADS = {1280: 16, 1408: 16, 1664: 16}
_SIGLIP_HEADS = {1152: 16, 1536: 16}
# (patch, patches of a side) -> pixels of a side, where the patches leave some out: So400m/14.
_SIZES = {(14, 27): 384}
_BY_SIDE = {"gelu_text_tanh": {"image": "gelu", "text": "gelu_tanh"}}  # Variant -> activations.
_SIGLIP_2_ROWS = 256_000
_PADS = {"reads_pads": True}
_COSINE = {"name": "cosine", "learned_temperature": True}


def describe_clip(source: WeightSource, variant: str) -> Published:
    """Returns the CLIP that a source holds.

    Args:
      source: the weights, with the files beside them.
      variant: one of `MODELS['clip']`; "" if the source specifies its activation.

    Raises:
      UserError: the source is none, does not specify its activation, or has another than `variant`.
    """
    arrays, layout = source.arrays, find_layout(source.arrays)
    is_resnet = "encoder" in layout.image
    if not is_resnet and not layout.has(arrays, "image/encoder/class_token"):
        raise UserError("it has no class token, as a SigLIP: use --model=siglip.")
    settings = read_settings(source, layout.kind, _CLIP)
    stored = next((name for name in arrays if re.match(EXPECTED_UNEXPECTED[0], name)), "")
    known = dict.fromkeys(SIDES, "quick_gelu") if stored else settings.activations
    if settings.file and known != settings.activations:
        raise UserError(
            f"its {settings.file} says {settings.activations['image']}, but it is an archive of "
            "OpenAI, all of which were trained with quick_gelu: remove the file, or set its "
            "model_cfg.quick_gelu to true."
        )
    where = settings.file or "archive of OpenAI"
    activations = _decide(known, variant, where, MODELS["clip"])
    if is_resnet:
        image = _describe_resnet(layout, arrays, settings)
    else:
        image = _describe_vit(layout, arrays, settings, activations["image"], _HEADS, is_clip=True)
    text = _describe_text(layout, arrays, settings, activations["text"], {}, is_clip=True)
    # Models that were trained with the sigmoid loss have a bias.
    parameters = dict(layout.parameters)
    has_bias = parameters["bias"] in arrays
    if not has_bias:
        del parameters["bias"]
    return Published(
        sides={"image": image, "text": text},
        similarity=_COSINE | ({"learned_bias": True} if has_bias else {}),
        layers={"image": layout.image, "text": layout.text},
        parameters=parameters,
        tokenizers={"merges.txt": {"tokenizer": "bpe"}},
    )


def describe_siglip(source: WeightSource, variant: str) -> Published:
    """Returns the SigLIP or SigLIP 2 that a source holds.

    Args:
      source: the weights, with the files beside them.
      variant: one of `MODELS['siglip']`; "" if the source specifies its activation.

    Raises:
      UserError: the source is none, does not specify its activation, or has another than `variant`.
    """
    arrays, layout = source.arrays, find_layout(source.arrays)
    if not layout.has(arrays, "image/head/probe"):
        raise UserError("it has no attention pooling with a probe, as a CLIP: use --model=clip.")
    is_of_authors = layout.kind == "big_vision"
    usual = _SIGLIP._replace(recipe="big_vision") if is_of_authors else _SIGLIP
    settings = read_settings(source, layout.kind, usual)
    known = dict.fromkeys(SIDES, "gelu_tanh") if is_of_authors else settings.activations
    if layout.kind == "timm":
        known = {}  # open_clip computes another one than the authors.
    where = settings.file or "format of big_vision"
    activations = _decide(known, variant, where, MODELS["siglip"])
    image = _describe_vit(
        layout, arrays, settings, activations["image"], _SIGLIP_HEADS, is_clip=False
    )
    text = _describe_text(
        layout, arrays, settings, activations["text"], _SIGLIP_HEADS, is_clip=False
    )
    return Published(
        sides={"image": image, "text": text},
        similarity=_COSINE | {"learned_bias": True},
        layers={"image": layout.image, "text": layout.text},
        parameters=layout.parameters,
        tokenizers=_siglip_tokenizers(text.encoder["vocab_size"]),
    )


def _decide(
    known: Mapping[str, str], variant: str, where: str, variants: tuple[str, ...]
) -> dict[str, str]:
    """Returns the activation of both sides, from the source or as asked for."""
    chosen = _BY_SIDE.get(variant, dict.fromkeys(SIDES, variant))
    if known.keys() >= set(SIDES):
        if variant and chosen != known:
            trained = " and ".join(dict.fromkeys(known.values()))
            raise UserError(
                f"by its {where}, it was trained with {trained}, not with --variant={variant}; "
                "leave --variant out."
            )
        return dict(known)
    if not variant:
        raise UserError(
            "nothing in it names the activation that it was trained with, and a wrong one costs "
            f"accuracy in silence: use --variant={' or --variant='.join(variants)}, as its "
            "publisher says, or put its config file beside it (open_clip_config.json or "
            "config.json)."
        )
    return chosen | dict(known)


def _describe_vit(
    layout: ClipLayout,
    arrays: Arrays,
    settings: ClipSettings,
    activation: str,
    heads_of: Mapping[int, int],
    *,
    is_clip: bool,
) -> Description:
    kernel = layout.shape(arrays, "image/encoder/patches/kernel")
    patch, width = kernel[0], kernel[-1]
    tokens, _ = layout.shape(arrays, "image/encoder/position_embeddings")
    depth, _, mlp_dim = layout.shape(arrays, "image/encoder/layers/mlp_hidden/kernel")
    side = grid_side(tokens - is_clip, "positions of patches")
    size = settings.size or _SIZES.get((patch, side), patch * side)
    if size // patch != side:
        size = patch * side
    heads = _heads(layout, arrays, settings, "image", width, heads_of)
    computed = {"activation": activation, "epsilon": settings.epsilon["image"]}
    encoder = {
        "name": "vit", "patch": patch, "width": width, "depth": depth, "heads": heads,
        "mlp_dim": mlp_dim, "class_token": is_clip, "patch_bias": not is_clip,
        "norm_before": is_clip, "init": "clip" if is_clip else "siglip",
        "position_resize": "bicubic" if is_clip else "corners",
        "normalization": settings.normalization, **computed,
    }  # fmt: skip
    encoder |= {"drops_rest": True} if size % patch else {}
    head = {"name": "first"}
    if not is_clip:
        head = {"name": "map", "heads": heads, "mlp_dim": mlp_dim, **computed}
    projection = _projection(layout, arrays, "image") if is_clip else None
    return Description(encoder, head, _image_inputs(settings, size), projection=projection)


def _describe_resnet(layout: ClipLayout, arrays: Arrays, settings: ClipSettings) -> Description:
    units: list[int] = []
    while layout.has(arrays, f"image/encoder/stage{len(units) + 1}_unit1/reduce/kernel"):
        count, stage = 1, f"image/encoder/stage{len(units) + 1}_unit"
        while layout.has(arrays, f"{stage}{count + 1}/reduce/kernel"):
            count += 1
        units.append(count)
    *_, width = layout.shape(arrays, "image/encoder/stem3/kernel")
    tokens, _ = layout.shape(arrays, "image/head/position_embeddings")
    channels, output = layout.shape(arrays, "image/head/output/kernel")
    encoder = {
        "name": "modified_resnet", "width": width, "units": units,
        "normalization": settings.normalization,
    }  # fmt: skip
    head = {"name": "attention_pool", "heads": max(1, channels // 64), "width": output}
    size = 2 ** (1 + len(units)) * grid_side(tokens - 1, "positions of cells")
    return Description(encoder, head, _image_inputs(settings, size))


def _image_inputs(settings: ClipSettings, size: int) -> dict[str, Any]:
    if settings.size not in (None, size):
        raise UserError(
            f"its {settings.file} has images of {settings.size} pixels, but its positions are for "
            f"{size}: take the file that was published with the weights."
        )
    return {"size": size, "eval_recipe": settings.recipe, "eval_crop": 1.0}


def _describe_text(
    layout: ClipLayout,
    arrays: Arrays,
    settings: ClipSettings,
    activation: str,
    heads_of: Mapping[int, int],
    *,
    is_clip: bool,
) -> Description:
    rows, width = layout.shape(arrays, "text/encoder/word_embeddings")
    positions, _ = layout.shape(arrays, "text/encoder/position_embeddings")
    depth, _, mlp_dim = layout.shape(arrays, "text/encoder/layers/mlp_hidden/kernel")
    encoder = {
        "name": "text_transformer", "causal": is_clip, "init": "clip" if is_clip else "siglip",
        "position_resize": "linear" if is_clip else "corners", "vocab_size": rows, "width": width,
        "depth": depth, "heads": _heads(layout, arrays, settings, "text", width, heads_of),
        "mlp_dim": mlp_dim, "max_positions": positions, "activation": activation,
        "epsilon": settings.epsilon["text"],
    }  # fmt: skip
    inputs = {"lower_case": True, "max_length": positions} | ({} if is_clip else _PADS)
    projection = _projection(layout, arrays, "text")
    return Description(encoder, {"name": "last"}, inputs, projection=projection)


def _heads(
    layout: ClipLayout,
    arrays: Arrays,
    settings: ClipSettings,
    side: str,
    width: int,
    heads_of: Mapping[int, int],
) -> int:
    """Returns the number of heads: by the arrays of flax, the config file, or the width."""
    if layout.kind == "big_vision":
        rules = layout.image if side == "image" else layout.text
        name = rules["encoder/layers"]("query/bias").name
        return arrays[name if isinstance(name, str) else name[0]].shape[-2]
    heads = settings.heads.get(side) or heads_of.get(width) or width // 64
    if not heads or width % heads or (not settings.heads.get(side) and width % 64):
        raise UserError(
            f"its {side} layers are {width} wide, for which no number of heads is known; put its "
            "config file beside it (open_clip_config.json or config.json)."
        )
    return heads


def _projection(layout: ClipLayout, arrays: Arrays, side: str) -> dict[str, Any] | None:
    """Returns the section of the last linear layer of a side, None if it has none."""
    if not layout.has(arrays, f"{side}/projection/kernel"):
        return None
    *_, width = layout.shape(arrays, f"{side}/projection/kernel")
    return {"width": width, "bias": layout.has(arrays, f"{side}/projection/bias")}


def _siglip_tokenizers(rows: int) -> dict[str, dict[str, str]]:
    """Returns the settings of each kind of tokenizer's file; SigLIP 1 pads with the end."""
    end, pad = ("<eos>", "<pad>") if rows == _SIGLIP_2_ROWS else ("</s>", "</s>")
    return {
        "sentencepiece.model": {"tokenizer": "sentencepiece", "end": end, "pad": pad},
        "tokenizer.json": {"tokenizer": "tokenizer_json", "pad": pad},
    }
