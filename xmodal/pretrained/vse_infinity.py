"""VSE-infinity as woodfrog/vse_infty released it: `model_best.pth` of regions and of grids."""

from typing import Any

from xmodal.pretrained import layer_rules
from xmodal.pretrained.bert_weights import bert_sizes, hugging_face
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import gru_encoder, regions, sentences
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

# The CNN's other names, its classifier, a norm that is never used, and BERT's unused outputs.
_UNUSED = (
    r"(.*\.)?backbone\.(base|top|resnet\.fc)\.",
    r"(.*\.)?mlp\.bns\.1\.",
    r"(.*\.)?bert\.(pooler\.|embeddings\.position_ids)",
)
_GRIDS = {"size": 512, "eval_transform": "cxc", "eval_crop": 1.0}


def describe_vse_infinity(source: WeightSource) -> Published:
    """Returns the model of a checkpoint: regions or grid cells, BERT or a BiGRU.

    Raises:
      UserError: the CNN is not a ResNet or ResNeXt, or the source is not such a checkpoint.
    """
    arrays = source.arrays
    has_grids = any(".backbone.resnet." in f".{name}" for name in arrays)
    anchor = "image_encoder.fc.weight" if has_grids else "mlp.layers.0.weight"
    image = layer_rules.find_prefix(arrays, anchor)
    module = f"{image}image_encoder." if has_grids else image
    width, inputs = layer_rules.array_shape(arrays, f"{module}fc.weight")
    head, layers = _gpo(arrays, module)
    head["width"], layers["head/linear"] = width, layer_rules.linear(f"{module}fc")
    if has_grids:
        encoder, layers["encoder"] = torchvision_encoder(
            arrays, f"{image}backbone.resnet.", "vse_infinity"
        )
        if source.choose("imagenet", _trained(source)) == "detector":
            encoder["normalization"] = "detector"
        pictures = Description(encoder, head, _GRIDS)
    else:
        head["mlp"], _ = layer_rules.array_shape(arrays, f"{module}mlp.layers.0.weight")
        layers |= {
            "head/mlp_hidden": layer_rules.linear(f"{module}mlp.layers.0"),
            "head/mlp_norm": layer_rules.norm(f"{module}mlp.bns.0"),
            "head/mlp_output": layer_rules.linear(f"{module}mlp.layers.1"),
        }
        pictures = regions(inputs, head)
    text, text_layers = _describe_text(source)
    return Published(
        towers={"image": pictures, "text": text},
        similarity={"name": "cosine"},
        layers={"image": layers, "text": text_layers},
        unused=_UNUSED,
    )


def _trained(source: WeightSource) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    backbone = source.options.get("backbone_source")
    if source.options.get("precomp_enc_type") != "backbone" or not isinstance(backbone, str):
        return None
    return "detector" if "detector" in backbone else "imagenet"


def _describe_text(source: WeightSource) -> tuple[Description, dict[str, LayerRule]]:
    arrays, table = source.arrays, "bert.embeddings.word_embeddings.weight"
    if not any(name.endswith(table) for name in arrays):
        start = layer_rules.find_prefix(arrays, "embed.weight")
        head, rules = _gpo(arrays, start)
        encoder, layers = gru_encoder(arrays, start, directions="mean")
        return sentences(source, encoder, head), {**layers, **rules}
    start = layer_rules.find_prefix(arrays, table)
    head, rules = _gpo(arrays, start)
    encoder = {"name": "bert", **bert_sizes(arrays, f"{start}bert.")}
    head["width"], _ = layer_rules.array_shape(arrays, f"{start}linear.weight")
    rules["encoder"] = hugging_face(f"{start}bert.", encoder["depth"])
    rules["head/linear"] = layer_rules.linear(f"{start}linear")
    inputs = {"tokenizer": "wordpiece", "lower_case": True}
    files = words_of(source, encoder["vocab_size"])
    return Description(encoder, head, inputs, files), rules


def _gpo(arrays: Arrays, start: str) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    """The section of the generalized pooling, and its rules."""
    _, code_width = layer_rules.array_shape(arrays, f"{start}gpool.gru.weight_ih_l0")
    _, hidden = layer_rules.array_shape(arrays, f"{start}gpool.linear.weight")
    return {"name": "gpo", "code_width": code_width, "hidden": hidden}, {
        "head/position_weights/recurrent": layer_rules.gru(f"{start}gpool.gru"),
        "head/position_weights/score": layer_rules.linear(f"{start}gpool.linear"),
    }
