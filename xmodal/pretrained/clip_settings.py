"""Settings of a CLIP or SigLIP that its arrays do not show, from the config files beside it."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.pixels.images import ImageConfig
from xmodal.models.encoders import pixels
from xmodal.pretrained.weight_files import WeightSource

MODALITIES = ("image", "text")
ARCHIVE = r"(.*\.)?(input_resolution|context_length|vocab_size)$"
"""Sizes that archives of OpenAI store like weights."""
_RECIPES = {
    ("shortest", "bicubic"): "clip",
    ("shortest", "bilinear"): "torchvision",
    ("squash", "bicubic"): "squash",
    ("squash", "bilinear"): "squash_bilinear",
}
"""(how an image becomes a square, filter) -> `config.data.image.eval_transform`."""
_NORMALIZATIONS = {
    (pixels.CLIP_MEAN, pixels.CLIP_STD): "clip",
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)): "inception",
    (pixels.MEAN, pixels.STD): "imagenet",
}
ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}
"""Activations of transformers -> ours."""
_FILTERS = {2: "bilinear", 3: "bicubic"}  # PIL's numbers.
# Values of open_clip's config that arrays do not show, and with which the encoders equal its own.
_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "final_ln_after_pool": (False,),
    "global_average_pool": (False,),
    "pool_type": ("tok", "argmax", "eos", "last"),
    "pos_embed_type": ("learnable",),
    "act_kwargs": (None, {}, {"approximate": "tanh"}),
    "timm_pool": ("map",),
}


class ClipSettings(NamedTuple):
    """Settings of both modalities; at first, those that the files of a publisher may leave out.

    Attributes:
      activations: modality -> key of `transformer_layers.ACTIVATIONS`; no modality if it is not
        known.
      heads: modality -> attention heads; no modality if the width decides.
      epsilon: modality -> epsilon of the layer norms.
      recipe: `config.data.image.eval_transform`.
      normalization: normalization of the pixels.
      size: side of the images; None if only the arrays say so.
      crop: side of the images by the shorter side before the crop.
    """

    activations: Mapping[str, str]
    heads: Mapping[str, int]
    epsilon: Mapping[str, float]
    recipe: str
    normalization: str
    size: int | None = None
    crop: float = 1.0


def read_settings(source: WeightSource, kind: str, usual: ClipSettings) -> ClipSettings:
    """Returns the settings in the config file that belongs to a layout.

    Args:
      source: the weights and the files beside them.
      kind: see `clip_layouts.ClipLayout`.
      usual: values that the file may leave out; activations and heads only that of transformers.
    """
    if kind == "transformers":
        return read_transformers(source.files, usual)
    if kind == "big_vision":
        return usual._replace(heads={}, recipe="big_vision")
    settings = usual._replace(activations={}, heads={})
    if (config := source.files.get("open_clip_config.json")) is not None:
        settings = _open_clip(config, usual)
    if kind == "timm":  # open_clip computes another activation than the authors.
        settings = settings._replace(activations={})
    elif any(re.match(ARCHIVE, name) for name in source.arrays):
        # All archives of OpenAI were trained with quick_gelu.
        settings = settings._replace(activations=usual.activations)
    return settings


def read_transformers(
    files: Mapping[str, Any], usual: ClipSettings, known: tuple[str, ...] = ("clip", "siglip")
) -> ClipSettings:
    """Returns the settings in the config of transformers and in that of the image processor.

    Args:
      files: the files beside the weights.
      usual: values that they may leave out; of a ViT, with `image` alone.
      known: the model_type, "vit" or others.
    """
    config = files.get("config.json", {})
    if (kind := config.get("model_type")) not in known:
        raise UserError(
            "it needs the config.json that says its activation and its number of heads, with the "
            f"model_type {' or '.join(map(repr, known))}, not {kind!r}. NaFlex is not supported."
        )
    # In old files, a second section overrides the first.
    parts = {
        modality: {**config.get(name, {}), **(config.get(f"{name}_dict") or {})}
        for modality, name in (("image", "vision_config"), ("text", "text_config"))
    }
    parts = {"image": config} if kind == "vit" else parts
    activations, file = dict(usual.activations), "config.json"
    for modality, part in parts.items():
        if "hidden_act" in part:
            activations[modality] = _known(file, "hidden_act", part["hidden_act"], ACTIVATIONS)
    settings = usual._replace(
        activations=activations,
        heads={s: part.get("num_attention_heads", usual.heads[s]) for s, part in parts.items()},
        epsilon={s: part.get("layer_norm_eps", usual.epsilon[s]) for s, part in parts.items()},
        size=parts["image"].get("image_size"),
    )
    for file in ("preprocessor_config.json", "processor_config.json"):
        if (content := files.get(file)) is not None:
            return _with_pixels(settings, content.get("image_processor", content), file)
    return settings


def _with_pixels(settings: ClipSettings, config: Mapping[str, Any], file: str) -> ClipSettings:
    """Adds the settings of transformers' image processor."""
    usual = {"shortest_edge" if settings.recipe == "clip" else "height": settings.size}
    size = config.get("size", usual)
    mode = "shortest" if isinstance(size, int) or "shortest_edge" in size else "squash"
    if mode == "shortest" and not config.get("do_center_crop", True):
        mode = "shortest without a crop"
    crop = config.get("crop_size") if mode == "shortest" else None
    parts = [each if isinstance(each, dict) else {"": each} for each in (size, crop)]
    edges, cropped = ({*part.values()} - {None} for part in parts)
    sizes = {settings.size, *(cropped or edges)} - {None}
    if len(sizes) > 1 or len(edges) > 1:
        raise UserError(f"its {file} has size={size} and crop_size={crop}, but needs one size.")
    resample = config.get("resample", 3)
    recipe = (mode, _FILTERS.get(resample, str(resample)))
    side = min(sizes, default=None)
    settings = settings._replace(size=side, crop=side / min(edges) if cropped and edges else 1.0)
    return _processed(settings, file, recipe, config.get("image_mean"), config.get("image_std"))


def _open_clip(config: Mapping[str, Any], usual: ClipSettings) -> ClipSettings:
    model, file = config.get("model_cfg", config), "open_clip_config.json"
    image, text = model.get("vision_cfg", {}), model.get("text_cfg", {})
    for section in (image, text):
        for key, values in _SUPPORTED.items():
            if key in section:
                _check_known(file, key, section[key], values)
    activation = "quick_gelu" if model.get("quick_gelu") else "gelu"
    heads = {"text": text["heads"]} if "heads" in text else {}
    if "width" in image and not isinstance(image.get("layers"), list):  # A list is a ResNet's.
        heads["image"] = image["width"] // image.get("head_width", 64)
    preprocess = config.get("preprocess_cfg", {})
    size = preprocess.get("size", image.get("image_size"))
    activations, epsilons = {}, {}
    for modality, part in (("image", image), ("text", text)):
        is_tanh = (part.get("act_kwargs") or {}).get("approximate") == "tanh"
        activations[modality] = "gelu_tanh" if is_tanh else activation
        epsilons[modality] = (part.get("norm_kwargs") or {}).get("eps", usual.epsilon[modality])
    settings = usual._replace(
        activations=activations,
        heads=heads,
        epsilon=epsilons,
        size=size[0] if isinstance(size, list) else size,
    )
    mode, filter_name = next(pair for pair, name in _RECIPES.items() if name == usual.recipe)
    recipe = preprocess.get("resize_mode", mode), preprocess.get("interpolation", filter_name)
    return _processed(settings, file, recipe, preprocess.get("mean"), preprocess.get("std"))


def _processed(
    settings: ClipSettings, file: str, recipe: tuple[str, str], mean: Any, std: Any
) -> ClipSettings:
    """Returns settings with our names of a recipe and of the statistics of pixels."""
    recipe_name = _known(file, "resizing", recipe, _RECIPES)
    usual = next(pair for pair, name in _NORMALIZATIONS.items() if name == settings.normalization)
    found = (usual[0] if mean is None else mean, usual[1] if std is None else std)
    for known, name in _NORMALIZATIONS.items():
        if np.allclose(found, known, atol=1e-6):
            return settings._replace(recipe=recipe_name, normalization=name)
    raise UserError(
        f"its {file} normalizes pixels with mean={found[0]} and std={found[1]}; known: CLIP's, "
        "ImageNet's, and 0.5."
    )


def pixel_settings(images: ImageConfig, normalization: str) -> dict[str, Any]:
    """Returns how an evaluation crop is made, in words that publishers share.

    Returns:
      `mode` ("shortest" or "squash"), `filter`, its number `resample`, `mean`, `std`, `edge`, the
      shorter side before the crop, and `square`, the sides after it.
    """
    # The counterpart of big_vision's resizing without antialiasing is only the nearest.
    recipes = {name: pair for pair, name in _RECIPES.items()}
    recipes["big_vision"] = recipes["squash_bilinear"]
    statistics = {name: pair for pair, name in _NORMALIZATIONS.items()}
    statistics["torch"] = statistics["imagenet"]
    mode, kernel = _known("config", "eval_transform", images.eval_transform, recipes)
    mean, std = _known("config", "normalization", normalization, statistics)
    numbers = {name: number for number, name in _FILTERS.items()}
    return {
        "mode": mode, "filter": kernel, "resample": numbers[kernel], "mean": mean, "std": std,
        "edge": round(images.size / images.eval_crop), "square": [images.size] * 2,
    }  # fmt: skip


def _known(file: str, key: str, value: Any, known: Mapping[Any, Any]) -> Any:
    _check_known(file, key, value, known)
    return known[value]


def _check_known(file: str, key: str, value: Any, known: Collection[Any]) -> None:
    if value not in known:
        raise UserError(f"its {file} has {key}={value!r}; known: {', '.join(map(str, known))}.")
