"""Settings of a CLIP or SigLIP that its arrays do not show, from the config files beside it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders import pixels
from xmodal.pretrained.weight_files import WeightSource

SIDES = ("image", "text")
_RECIPES = {
    ("shortest", "bicubic"): "clip",
    ("squash", "bicubic"): "squash",
    ("squash", "bilinear"): "squash_bilinear",
}
"""(how an image becomes a square, filter) -> `config.data.image.eval_recipe`."""
_NORMALIZATIONS = {
    (pixels.CLIP_MEAN, pixels.CLIP_STD): "clip",
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)): "inception",
    (pixels.MEAN, pixels.STD): "imagenet",
}
_ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}
_FILTERS = {2: "bilinear", 3: "bicubic"}  # PIL's numbers.
_PIXELS = "image_processor"  # The section of a processor_config.json.


class Defaults(NamedTuple):
    """Values that the files of a publisher may leave out.

    Attributes:
      activation: `hidden_act` in the files of transformers, for both sides.
      heads: side -> attention heads, in the files of transformers.
      epsilon: epsilon of the layer norms.
      recipe: `eval_recipe`.
      normalization: normalization of the pixels.
    """

    activation: str
    heads: Mapping[str, int]
    epsilon: float
    recipe: str
    normalization: str


@dataclasses.dataclass(frozen=True)
class ClipSettings:
    """Settings of both sides.

    Attributes:
      file: the file that says so; "" if there is none.
      activations: side -> key of `transformer_layers.ACTIVATIONS`; no side if it is not known.
      heads: side -> attention heads; no side if the width decides.
      epsilon: side -> epsilon of the layer norms.
      recipe: `config.data.image.eval_recipe`.
      normalization: normalization of the pixels.
      size: side of the images; None if only the arrays say so.
    """

    file: str
    activations: Mapping[str, str]
    heads: Mapping[str, int]
    epsilon: Mapping[str, float]
    recipe: str
    normalization: str
    size: int | None = None


def read_settings(source: WeightSource, kind: str, defaults: Defaults) -> ClipSettings:
    """Returns the settings in the config file that belongs to a layout.

    Args:
      source: the weights and the files beside them.
      kind: see `clip_layouts.ClipLayout`.
      defaults: values that the file may leave out.

    Raises:
      UserError: the file asks for something that the encoders do not compute.
    """
    if kind in ("openai", "timm") and "open_clip_config.json" in source.files:
        return _open_clip(source.files["open_clip_config.json"], defaults)
    if kind == "transformers" and "config.json" in source.files:
        return _transformers(source, defaults)
    if kind == "transformers":
        raise UserError(
            "its config.json is missing, which says the activation and the number of heads: put "
            "it beside the weights."
        )
    return ClipSettings(
        "", {}, {}, dict.fromkeys(SIDES, defaults.epsilon), defaults.recipe, defaults.normalization
    )


def _transformers(source: WeightSource, defaults: Defaults) -> ClipSettings:
    config = source.files["config.json"]
    if config.get("model_type") not in ("clip", "siglip"):
        raise UserError(
            f"its config.json has model_type={config.get('model_type')!r}; known: 'clip', "
            "'siglip'. SigLIP 2 of fixed sizes is 'siglip', too; NaFlex is not supported."
        )
    parts = {"image": _part(config, "vision_config"), "text": _part(config, "text_config")}
    activations = {}
    for side, part in parts.items():
        name = part.get("hidden_act", defaults.activation)
        if name not in _ACTIVATIONS:
            raise UserError(
                f"its config.json has hidden_act={name!r}; known: {', '.join(_ACTIVATIONS)}."
            )
        activations[side] = _ACTIVATIONS[name]
    settings = ClipSettings(
        "config.json",
        activations,
        {
            side: part.get("num_attention_heads", defaults.heads[side])
            for side, part in parts.items()
        },
        {side: part.get("layer_norm_eps", defaults.epsilon) for side, part in parts.items()},
        defaults.recipe,
        defaults.normalization,
        parts["image"].get("image_size"),
    )
    for file, section in (
        ("preprocessor_config.json", source.files.get("preprocessor_config.json")),
        ("processor_config.json", source.files.get("processor_config.json", {}).get(_PIXELS)),
    ):
        if section is not None:
            return _with_pixels(settings, section, file)
    return settings


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a section of a config.json; in old ones, a second section overrides it."""
    return {**config.get(name, {}), **(config.get(f"{name}_dict") or {})}


def _with_pixels(settings: ClipSettings, config: Mapping[str, Any], file: str) -> ClipSettings:
    """Adds the settings of transformers' image processor."""
    for key in ("do_resize", "do_rescale", "do_normalize"):
        if not config.get(key, True):
            raise UserError(f"its {file} has {key}=false, which is not supported.")
    usual = {"shortest_edge" if settings.recipe == "clip" else "height": settings.size}
    size = config.get("size", usual)
    mode = "shortest" if isinstance(size, int) or "shortest_edge" in size else "squash"
    if mode == "shortest" and not config.get("do_center_crop", True):
        mode = "shortest without a crop"
    sides = _sides(size) | (_sides(config.get("crop_size")) if mode == "shortest" else set())
    if len(sides | _sides(settings.size)) > 1:
        raise UserError(
            f"its {file} has size={size} and crop_size={config.get('crop_size')}, but all must be "
            f"one size, {settings.size or 'that of the positions'}: take the file that was "
            "published with the weights."
        )
    mean, std = _statistics(settings)
    return dataclasses.replace(
        settings,
        recipe=_recipe(
            file, mode, _FILTERS.get(config.get("resample", 3), str(config.get("resample")))
        ),
        normalization=_normalization(
            file, config.get("image_mean", mean), config.get("image_std", std)
        ),
        size=min(sides, default=None),
    )


def _sides(size: Any) -> set[int]:
    """The numbers in 224 or {"height": 224, "width": 224}; none for None."""
    return set(size.values() if isinstance(size, Mapping) else [size]) - {None}


def _statistics(settings: ClipSettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return next(pair for pair, name in _NORMALIZATIONS.items() if name == settings.normalization)


def _open_clip(config: Mapping[str, Any], defaults: Defaults) -> ClipSettings:
    model = config.get("model_cfg", config)
    image, text = model.get("vision_cfg", {}), model.get("text_cfg", {})
    _check_open_clip(image, text)
    usual = "quick_gelu" if model.get("quick_gelu") else "gelu"
    is_tanh = (text.get("act_kwargs") or {}).get("approximate") == "tanh"
    activations = {"image": usual, "text": "gelu_tanh" if is_tanh else usual}
    heads = {"text": text["heads"]} if "heads" in text else {}
    if "width" in image and not isinstance(image.get("layers"), list):  # A list is a ResNet's.
        heads["image"] = image["width"] // image.get("head_width", 64)
    epsilon = {
        side: (part.get("norm_kwargs") or {}).get("eps", defaults.epsilon)
        for side, part in (("image", image), ("text", text))
    }
    usual_settings = ClipSettings(
        "open_clip_config.json", activations, heads, epsilon, defaults.recipe,
        defaults.normalization, image.get("image_size"),
    )  # fmt: skip
    return _with_open_clip_pixels(usual_settings, config.get("preprocess_cfg", {}))


def _with_open_clip_pixels(settings: ClipSettings, config: Mapping[str, Any]) -> ClipSettings:
    """Adds the settings of the section `preprocess_cfg`."""
    size = config.get("size", settings.size)
    mode, interpolation = next(pair for pair, name in _RECIPES.items() if name == settings.recipe)
    mean, std = _statistics(settings)
    return dataclasses.replace(
        settings,
        recipe=_recipe(
            settings.file,
            config.get("resize_mode", mode),
            config.get("interpolation", interpolation),
        ),
        normalization=_normalization(
            settings.file, config.get("mean", mean), config.get("std", std)
        ),
        size=size[0] if isinstance(size, list) else size,
    )


# Values with which the encoders equal open_clip's.
_SUPPORTED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "vision_cfg": {
        "attentional_pool": (False,),
        "final_ln_after_pool": (False,),
        "global_average_pool": (False,),
        "input_patchnorm": (False,),
        "ls_init_value": (None,),
        "no_ln_pre": (False,),
        "pool_type": ("tok",),
        "pos_embed_type": ("learnable",),
        "act_kwargs": (None, {}),
        "timm_pool": ("map",),
        "timm_proj": ("none", None),
    },
    "text_cfg": {
        "embed_cls": (False,),
        "final_ln_after_pool": (False,),
        "hf_model_name": (None, ""),
        "ls_init_value": (None,),
        "proj_type": ("linear", "none"),
        "act_kwargs": (None, {}, {"approximate": "tanh"}),
    },
}


def _check_open_clip(image: Mapping[str, Any], text: Mapping[str, Any]) -> None:
    for name, section in (("vision_cfg", image), ("text_cfg", text)):
        for key, values in _SUPPORTED[name].items():
            if key in section and section[key] not in values:
                raise UserError(
                    f"its open_clip_config.json has {name}.{key}={section[key]!r}, which is not "
                    f"supported; known: {', '.join(map(repr, values))}."
                )
    is_siglip = "timm_model_name" in image
    read = {
        "no_causal_mask": (is_siglip,),
        "pool_type": ("last",) if is_siglip else ("argmax", "eos"),
    }
    for key, values in read.items():
        if text.get(key, values[0]) not in values:
            raise UserError(
                f"its open_clip_config.json has text_cfg.{key}={text[key]!r}, which is not "
                "supported with this image side."
            )


def _recipe(file: str, mode: str, interpolation: str) -> str:
    if (mode, interpolation) not in _RECIPES:
        known = ", ".join(f"{mode} by {each}" for mode, each in _RECIPES)
        raise UserError(f"its {file} resizes images by {mode}, {interpolation}; known: {known}.")
    return _RECIPES[mode, interpolation]


def _normalization(file: str, mean: Any, std: Any) -> str:
    for (own_mean, own_std), name in _NORMALIZATIONS.items():
        if np.allclose(mean, own_mean, atol=1e-6) and np.allclose(std, own_std, atol=1e-6):
            return name
    raise UserError(
        f"its {file} normalizes pixels with mean={mean} and std={std}; known: CLIP's, ImageNet's, "
        "and 0.5."
    )
