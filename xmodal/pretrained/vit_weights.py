"""Vision Transformers with a class token in the format of transformers (`ViTModel`).

Dosovitskiy et al. (2021), of google, and DINO's, whose `config.json` has the model_type "vit".
"""

import math

from xmodal.pretrained.clip_settings import read_vit_settings
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Table, find_prefix, name_of, nest, transformer_sizes
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.vilt import TRANSFORMERS, TRANSFORMERS_LAYERS
from xmodal.pretrained.weight_files import WeightSource

_PARTS = ("class_token", "position_embeddings", "patches", "norm")
TABLE: Table = {
    **{f"encoder/{name}": TRANSFORMERS[name] for name in _PARTS},
    **nest("encoder/layers/", *TRANSFORMERS_LAYERS),
}
"""The names in `transformers.ViTModel`."""
# Heads for classes and for pretraining.
_UNUSED = (r"(.*\.)?(pooler|classifier|decoder)\.", r"(.*\.)?mask_token$")


def describe_vit(source: WeightSource) -> Published:
    """Returns a published ViT."""
    arrays, settings = source.arrays, read_vit_settings(source.files)
    table = nest("", find_prefix(arrays, "embeddings.cls_token"), TABLE)
    *_, patch = arrays[f"{table['encoder/patches']}.weight"].shape
    _, tokens, _ = arrays[name_of(table["encoder/position_embeddings"])].shape
    encoder = {
        "name": "vit",
        "patch": patch,
        **transformer_sizes(arrays, table, "encoder/layers/"),
        "heads": settings.heads["image"],
        "activation": settings.activations["image"],
        "epsilon": settings.epsilon["image"],
        "normalization": settings.normalization,
    }
    size = math.isqrt(tokens - 1) * patch
    pixels = {"size": size, "eval_transform": settings.recipe, "eval_crop": settings.crop}
    tower = PublishedTower(Description(encoder, None, pixels), table)
    return Published(image=tower, unused=_UNUSED)
