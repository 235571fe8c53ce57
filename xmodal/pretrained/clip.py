"""CLIP and SigLIP of any size, as their authors, open_clip and transformers publish them.

openai/CLIP (TorchScript archives and state dicts), mlfoundations/open_clip, transformers, and
google-research/big_vision (SigLIP and SigLIP 2 of fixed sizes).
"""

import math
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained.clip_layouts import ClipLayout, find_layout
from xmodal.pretrained.clip_settings import ARCHIVE, MODALITIES, ClipSettings, read_settings
from xmodal.pretrained.folder import Description
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.variants import MODELS
from xmodal.pretrained.vocabularies import find_tokenizer
from xmodal.pretrained.weight_files import WeightSource

_UNUSED = (
    ARCHIVE,
    r"(.*\.)?position_ids$",
    # Masks of causal attention in old files, and other contents of training checkpoints.
    r"(.*\.)?attn_mask$",
    r"(optimizer|scaler|opt)[./]",
)
_CLIP = ClipSettings(
    dict.fromkeys(MODALITIES, "quick_gelu"), {"image": 12, "text": 8},
    dict.fromkeys(MODALITIES, 1e-5),
    "clip", "clip",
)  # fmt: skip
_SIGLIP = ClipSettings(
    dict.fromkeys(MODALITIES, "gelu_tanh"), dict.fromkeys(MODALITIES, 12),
    dict.fromkeys(MODALITIES, 1e-6),
    "squash", "inception",
)  # fmt: skip
# Widths whose heads are not 64 wide: ViT-H, g and bigG; So400m and g-opt of SigLIP.
_HEADS = {"image": {1280: 16, 1408: 16, 1664: 16}, "text": {}}
_SIGLIP_HEADS = {modality: {1152: 16, 1536: 16} for modality in MODALITIES}
# (patch, patches of a side) -> pixels of a side, where the patches leave some out: So400m/14.
_SIZES = {(14, 27): 384}
_BY_SIDE = {"gelu_text_tanh": {"image": "gelu", "text": "gelu_tanh"}}  # Variant -> activations.
_SIGLIP_2_ROWS = 256_000


def describe_clip(source: WeightSource) -> Published:
    """Returns the CLIP that a source holds."""
    return _describe(source, is_clip=True)


def describe_siglip(source: WeightSource) -> Published:
    """Returns the SigLIP or SigLIP 2 that a source holds."""
    return _describe(source, is_clip=False)


def _describe(source: WeightSource, *, is_clip: bool) -> Published:
    arrays, layout = source.arrays, find_layout(source.arrays)
    if layout.is_clip != is_clip:
        found = "an attention pooling with a probe" if is_clip else "no such pooling"
        raise UserError(f"it has {found}: use --model={'siglip' if is_clip else 'clip'}.")
    settings = read_settings(source, layout.kind, _CLIP if is_clip else _SIGLIP)
    variants = MODELS["clip" if is_clip else "siglip"].variants
    settings = settings._replace(activations=_decide(settings, source.variant, variants))
    describe_images = _vit if layout.has("image/encoder/patches/kernel") else _resnet
    # A CLIP has a bias only if it was trained with the sigmoid loss.
    parameters = {name: key for name, key in layout.parameters.items() if key in arrays}
    similarity = {"name": "cosine", "learned_temperature": True}
    return Published(
        image=PublishedTower(describe_images(layout, settings), layout.towers["image"]),
        text=PublishedTower(_text(layout, settings, source), layout.towers["text"]),
        similarity=similarity | ({"learned_bias": True} if "bias" in parameters else {}),
        parameters=parameters,
        unused=_UNUSED,
    )


def _decide(settings: ClipSettings, variant: str, variants: tuple[str, ...]) -> dict[str, str]:
    """Returns the activation of both towers, from the source or as asked for."""
    known = settings.activations
    chosen = _BY_SIDE.get(variant, dict.fromkeys(MODALITIES, variant))
    if not known and not variant:
        raise UserError(
            "nothing in it names the activation that it was trained with: use xmodal convert with "
            f"--variant={' or --variant='.join(variants)}, as its publisher says, or put its "
            "open_clip_config.json or config.json beside it."
        )
    if known and variant and chosen != known:
        trained = " and ".join(dict.fromkeys(known.values()))
        raise UserError(
            f"by its own files, it was trained with {trained}, not with --variant={variant}; "
            "leave --variant out."
        )
    return dict(known or chosen)


def _transformer(layout: ClipLayout, settings: ClipSettings, modality: str) -> dict[str, Any]:
    """Returns the keywords that the transformers of both modalities have."""
    depth, width, mlp_dim = layout.shape(f"{modality}/encoder/layers/mlp_hidden/kernel")
    heads = (_HEADS if layout.is_clip else _SIGLIP_HEADS)[modality].get(width, width / 64)
    heads = settings.heads.get(modality, heads)
    if layout.kind == "big_vision":  # Its arrays have an axis of heads.
        heads = layout.shape(f"{modality}/encoder/layers/query/bias")[-2]
    return {
        "width": width,
        "depth": depth,
        "heads": int(heads),
        "mlp_dim": mlp_dim,
        "init": "clip" if layout.is_clip else "siglip",
        "activation": settings.activations[modality],
        "epsilon": settings.epsilon[modality],
    }


def _vit(layout: ClipLayout, settings: ClipSettings) -> Description:
    is_clip = layout.is_clip
    patch = layout.shape("image/encoder/patches/kernel")[0]
    tokens = layout.shape("image/encoder/position_embeddings")[-2]
    side = math.isqrt(tokens - is_clip)
    size = settings.size or _SIZES.get((patch, side), patch * side)
    if size // patch != side:
        size = patch * side
    encoder = {
        "name": "vit", "patch": patch, "class_token": is_clip, "patch_bias": not is_clip,
        "norm_before": is_clip, "position_resize": "bicubic" if is_clip else "corners",
        "normalization": settings.normalization, **_transformer(layout, settings, "image"),
    }  # fmt: skip
    encoder |= {"drops_rest": True} if size % patch else {}
    shared = {name: encoder[name] for name in ("heads", "mlp_dim", "activation", "epsilon")}
    return Description(
        encoder,
        {"name": "cls"} if is_clip else {"name": "multihead_attention_pool", **shared},
        _image_inputs(settings, size),
        projection=_projection(layout, "image") if is_clip else None,
    )


def _resnet(layout: ClipLayout, settings: ClipSettings) -> Description:
    paths = [path.split("/") for path in layout.towers["image"]]
    stages = [path[1].split("_")[0] for path in paths if path[-1] == "reduce"]
    units = [stages.count(stage) for stage in sorted({*stages})]
    *_, width = layout.shape("image/encoder/stem3/kernel")
    tokens, _ = layout.shape("image/head/position_embeddings")
    channels, output = layout.shape("image/head/output/kernel")
    normalization = settings.normalization
    encoder = {
        "name": "modified_resnet", "width": width, "units": units, "normalization": normalization,
    }  # fmt: skip
    head = {"name": "attention_pool", "heads": max(1, channels // 64), "width": output}
    size = 2 ** (1 + len(units)) * math.isqrt(tokens - 1)
    return Description(encoder, head, _image_inputs(settings, size))


def _image_inputs(settings: ClipSettings, size: int) -> dict[str, Any]:
    return {"size": size, "eval_transform": settings.recipe, "eval_crop": settings.crop}


def _text(layout: ClipLayout, settings: ClipSettings, source: WeightSource) -> Description:
    is_clip = layout.is_clip
    rows, _ = layout.shape("text/encoder/word_embeddings")
    positions = layout.shape("text/encoder/position_embeddings")[-2]
    encoder = {
        "name": "text_transformer", "causal": is_clip, "vocab_size": rows,
        "position_resize": "linear" if is_clip else "corners", "max_positions": positions,
        **_transformer(layout, settings, "text"),
    }  # fmt: skip
    # SigLIP 1 pads with the end.
    end, pad = ("<eos>", "<pad>") if rows == _SIGLIP_2_ROWS else ("</s>", "</s>")
    tokenizers = {
        "sentencepiece.model": {"tokenizer": "sentencepiece", "end": end, "pad": pad},
        "tokenizer.json": {"tokenizer": "tokenizer_json", "pad": pad},
    }
    tokenizers = {"merges.txt": {"tokenizer": "bpe"}} if is_clip else tokenizers
    inputs, files = find_tokenizer(source, tokenizers, rows)
    inputs = {"lower_case": True, "max_length": positions, **inputs}
    inputs |= {} if is_clip else {"attend_to_padding": True}
    return Description(encoder, {"name": "lasttoken"}, inputs, files, _projection(layout, "text"))


def _projection(layout: ClipLayout, modality: str) -> dict[str, Any] | None:
    """Returns the section of the last linear layer of a tower, None if it has none."""
    if not layout.has(f"{modality}/projection/kernel"):
        return None
    *_, width = layout.shape(f"{modality}/projection/kernel")
    return {"width": width, "bias": layout.has(f"{modality}/projection/bias")}
