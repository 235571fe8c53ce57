"""VSE-infinity as woodfrog/vse_infty released it: `model_best.pth` of regions and of grids."""

import re
from collections.abc import Mapping
from typing import Any

from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import FEATURES, SENTENCES, gru_encoder, torchvision_encoder
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

# The CNN's other names, its classifier, a norm that is never used, and BERT's unused outputs.
EXPECTED_UNEXPECTED = (
    r"(.*\.)?backbone\.(base|top|resnet\.fc)\.",
    r"(.*\.)?mlp\.bns\.1\.",
    r"(.*\.)?bert\.(pooler\.|embeddings\.position_ids)",
)

_GRIDS = {"size": 512, "eval_recipe": "cxc", "eval_crop": 1.0}
_BERT = {"tokenizer": "wordpiece", "lower_case": True}
_HEAD_WIDTH = 64  # width of a head in all published BERTs


def trained_variant(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    source = options.get("backbone_source")
    if options.get("precomp_enc_type") != "backbone" or not isinstance(source, str):
        return None
    return "detector" if "detector" in source else "imagenet"


def describe_vse_infinity(arrays: Arrays, variant: str) -> Published:
    """Returns the model of a checkpoint: regions or grid cells, BERT or a BiGRU.

    Raises:
      UserError: the CNN is not a ResNet or ResNeXt, or the source is not such a checkpoint.
    """
    text = _text_start(arrays)
    has_grids = any(".backbone.resnet." in f".{name}" for name in arrays)
    anchor = "image_encoder.fc.weight" if has_grids else "mlp.layers.0.weight"
    image = torch_models.find_prefix(arrays, anchor)
    module = f"{image}image_encoder." if has_grids else image
    width, inputs = torch_models.array_shape(arrays, f"{module}fc.weight")
    head = {"name": "gpo", "width": width, **_position_sizes(arrays, module)}
    layers = {"head/linear": torch_models.linear(f"{module}fc"), **_position_rules(module)}
    if has_grids:
        encoder = torchvision_encoder(arrays, f"{image}backbone.resnet.", "vse_infinity")
        if variant == "detector":
            encoder["normalization"] = "detector"
        layers["encoder"] = torch_models.resnet(f"{image}backbone.resnet")
    else:
        encoder = {"name": "precomputed", "features": (36, inputs)}
        head["mlp"], _ = torch_models.array_shape(arrays, f"{module}mlp.layers.0.weight")
        layers |= {
            "head/mlp_hidden": torch_models.linear(f"{module}mlp.layers.0"),
            "head/mlp_norm": torch_models.norm(f"{module}mlp.bns.0"),
            "head/mlp_output": torch_models.linear(f"{module}mlp.layers.1"),
        }
    sentences, text_layers = _describe_text(arrays, text)
    return Published(
        sides={
            "image": Description(encoder, head, _GRIDS if has_grids else FEATURES),
            "text": sentences,
        },
        similarity={"name": "cosine"},
        layers={"image": layers, "text": text_layers},
    )


def _text_start(arrays: Arrays) -> str:
    if any(name.endswith("bert.embeddings.word_embeddings.weight") for name in arrays):
        return torch_models.find_prefix(arrays, "bert.embeddings.word_embeddings.weight")
    return torch_models.find_prefix(arrays, "embed.weight")


def _describe_text(arrays: Arrays, start: str) -> tuple[Description, dict[str, LayerRule]]:
    head: dict[str, Any] = {"name": "gpo", **_position_sizes(arrays, start)}
    rules = _position_rules(start)
    if f"{start}embed.weight" in arrays:
        encoder, layers = gru_encoder(arrays, start, directions="mean")
        return Description(encoder, head, SENTENCES), {**layers, **rules}
    bert = f"{start}bert."
    rows, width = torch_models.array_shape(arrays, f"{bert}embeddings.word_embeddings.weight")
    positions, _ = torch_models.array_shape(arrays, f"{bert}embeddings.position_embeddings.weight")
    hidden = "encoder.layer.0.intermediate.dense.weight"
    pattern = re.compile(rf"{re.escape(bert)}encoder\.layer\.(\d+)\..*")
    depth = len({match[1] for match in map(pattern.fullmatch, arrays) if match})
    encoder = {
        "name": "bert",
        "vocab_size": rows,
        "width": width,
        "depth": depth,
        "heads": max(1, width // _HEAD_WIDTH),
        "mlp_dim": torch_models.array_shape(arrays, bert + hidden)[0],
        "max_positions": positions,
    }
    head["width"], _ = torch_models.array_shape(arrays, f"{start}linear.weight")
    layers = {
        "encoder": torch_models.bert(f"{start}bert", depth),
        "head/linear": torch_models.linear(f"{start}linear"),
    }
    return Description(encoder, head, _BERT), {**layers, **rules}


def _position_sizes(arrays: Arrays, start: str) -> dict[str, int]:
    _, code_width = torch_models.array_shape(arrays, f"{start}gpool.gru.weight_ih_l0")
    _, hidden = torch_models.array_shape(arrays, f"{start}gpool.linear.weight")
    return {"code_width": code_width, "hidden": hidden}


def _position_rules(start: str) -> dict[str, LayerRule]:
    return {
        "head/position_weights/recurrent": torch_models.gru(f"{start}gpool.gru"),
        "head/position_weights/score": torch_models.linear(f"{start}gpool.linear"),
    }
