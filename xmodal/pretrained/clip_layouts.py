"""The names of CLIP and SigLIP in the files of four publishers, by our names.

openai/CLIP and mlfoundations/open_clip share one layout, and open_clip has timm's for SigLIP;
transformers and google-research/big_vision have their own.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules
from xmodal.pretrained.cnn_names import by_role, torch_array
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.layer_rules import Arrays, LayerRule, find, flat, linear, norm, whole


class ClipLayout(NamedTuple):
    """The names of the arrays of a model in a source.

    Attributes:
      kind: "openai", "timm", "transformers" or "big_vision".
      arrays: arrays of the source.
      towers: "image" and "text" -> path of one of our layers -> its rule, see
        `Published.layers`.
      parameters: names of the scale and the bias of the similarity.
    """

    kind: str
    arrays: Arrays
    towers: dict[str, dict[str, LayerRule]]
    parameters: dict[str, str]

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of one of our arrays, such as `image/encoder/norm/scale`.

        Raises:
          UserError: the source has no such array.
        """
        modality, _, path = name.partition("/")
        taken = find(self.towers[modality], path)
        first = (*taken.names(), f"the layers of {name}")[0]
        layer_rules.array_shape(self.arrays, first)
        stacked = () if isinstance(taken.name, str) else (len(taken.name),)
        return *stacked, *taken.changed(np.asarray(self.arrays[first])).shape

    def has(self, name: str) -> bool:
        """Returns whether the source has the array that one of ours is made of."""
        try:
            self.shape(name)
        except (UserError, KeyError, ValueError):  # ValueError: a part that the layer lacks.
            return False
        return True


def find_layout(arrays: Arrays) -> ClipLayout:
    """Returns the layout of a source.

    Raises:
      UserError: it is neither a CLIP nor a SigLIP, or holds several.
    """
    for anchor, separator, make in _LAYOUTS:
        pattern = re.compile(rf"((?:.*{re.escape(separator)})?){re.escape(anchor)}")
        found = [match[1] for match in map(pattern.fullmatch, arrays) if match]
        if len(found) > 1:
            raise UserError(f"it has several arrays {anchor!r}, but needs one: {sorted(found)}.")
        if found:
            return make(arrays, found[0])
    wanted = ", ".join(repr(row[0]) for row in _LAYOUTS)
    shown = ", ".join(sorted(arrays)[:4])
    raise UserError(
        f"it is not a CLIP or SigLIP of a fixed size: it has {shown}, ..., but none of {wanted}."
    )


def _openai(arrays: Arrays, start: str) -> ClipLayout:
    """A ViT or a ResNet; `start` may be `state_dict.module.`."""
    visual = f"{start}visual."
    is_vit = f"{visual}class_embedding" in arrays
    image = layer_rules.below(visual, _OPENAI_VIT if is_vit else _OPENAI_RESNET)
    if is_vit:
        image["encoder/layers"] = _openai_layers(arrays, visual)
    return ClipLayout(
        "openai", arrays, {"image": image, "text": _openai_text(arrays, start)}, _scale(start)
    )


def _openai_layers(arrays: Arrays, start: str) -> LayerRule:
    layer = f"{start}transformer.resblocks.{{}}."
    return layer_rules.stack(arrays, layer, _OPENAI_LAYER, "ln_1.weight")


def _openai_text(arrays: Arrays, start: str) -> dict[str, LayerRule]:
    """The text tower, whose names begin with `text.` in some models of open_clip."""
    text = f"{start}text." if f"{start}text.token_embedding.weight" in arrays else start
    rules = layer_rules.below(text, _OPENAI_TEXT)
    # A matrix of inputs x outputs, but in SigLIP a linear layer.
    if f"{text}text_projection" in arrays:
        rules["projection/kernel"] = whole(f"{text}text_projection")
    return {**rules, "encoder/layers": _openai_layers(arrays, text)}


def _timm(arrays: Arrays, start: str) -> ClipLayout:
    trunk = f"{start}visual.trunk."
    image = layer_rules.below(trunk, _TIMM_IMAGE)
    image["encoder/layers"] = layer_rules.stack(
        arrays, f"{trunk}blocks.{{}}.", layer_rules.TIMM_LAYER, "norm1.weight"
    )
    return ClipLayout(
        "timm", arrays, {"image": image, "text": _openai_text(arrays, start)}, _scale(start)
    )


def _transformers(arrays: Arrays, start: str) -> ClipLayout:
    towers = {}
    for modality, prefix, table in (
        ("image", f"{start}vision_model.", _TRANSFORMERS_IMAGE),
        ("text", f"{start}text_model.", _TRANSFORMERS_TEXT),
    ):
        towers[modality] = layer_rules.below(prefix, table)
        towers[modality]["encoder/layers"] = layer_rules.stack(
            arrays, f"{prefix}encoder.layers.{{}}.", _TRANSFORMERS_LAYER, "layer_norm1.weight"
        )
    if f"{start}visual_projection.weight" in arrays:
        towers["image"]["projection"] = linear(f"{start}visual_projection")
        towers["text"]["projection"] = linear(f"{start}text_projection")
    return ClipLayout("transformers", arrays, towers, _scale(start))


def _big_vision(arrays: Arrays, start: str) -> ClipLayout:
    if len(arrays[f"{start}img/pos_embedding"]) > 1:
        raise UserError("it is a NaFlex model, which is not supported: take one of a fixed size.")
    towers = {
        "image": layer_rules.below(f"{start}img/", _FLAX_IMAGE),
        "text": layer_rules.below(f"{start}txt/", _FLAX_TEXT),
    }
    for modality, stack in (("image", "img/Transformer"), ("text", "txt/Encoder_0")):
        block, anchor = f"{start}{stack}/encoderblock", "LayerNorm_0/scale"
        if f"{block}/{anchor}" in arrays:
            rule = layer_rules.flax_layer(f"{block}/", _FLAX_LAYER, lead=1)
        else:
            layer = layer_rules.flax_layer("", _FLAX_LAYER)
            rule = layer_rules.stack(arrays, f"{block}_{{}}/", layer, anchor)
        towers[modality]["encoder/layers"] = rule
    return ClipLayout("big_vision", arrays, towers, {"log_scale": f"{start}t", "bias": f"{start}b"})


def _scale(start: str) -> dict[str, str]:
    return {"log_scale": f"{start}logit_scale", "bias": f"{start}logit_bias"}


def _modified_resnet(layer: str, role: str) -> Taken:
    """openai/CLIP's ResNets, without their attention pooling."""
    unit, _, conv = layer.rpartition("/")
    is_norm = role.startswith("norm_")
    if not unit:
        place, number = "", layer.removeprefix("stem")
    else:
        stage, index = map(int, re.findall(r"\d+", unit))
        place = f"layer{stage}.{index - 1}."
        number = {"reduce": "1", "spatial": "2", "expand": "3", "shortcut": ""}[conv]
    kind = f"{'bn' if is_norm else 'conv'}{number}" if number else f"downsample.{int(is_norm)}"
    return torch_array(f"{place}{kind}", role)


_OPENAI_VIT = {
    "encoder/patches": layer_rules.convolution_2d("conv1"),
    "encoder/class_token": whole("class_embedding"),
    "encoder/position_embeddings": whole("positional_embedding"),
    "encoder/before_norm": norm("ln_pre"),
    "encoder/norm": norm("ln_post"),
    "projection/kernel": whole("proj"),
}
_OPENAI_RESNET = {
    "encoder": by_role(_modified_resnet),
    "head": layer_rules.by_part(
        {
            **{part: f"attnpool.{part[0]}_proj" for part in layer_rules.ATTENTION},
            "output": "attnpool.c_proj",
        }
    ),
    "head/position_embeddings": whole("attnpool.positional_embedding"),
}
_OPENAI_TEXT = {
    "encoder/word_embeddings": whole("token_embedding.weight"),
    "encoder/position_embeddings": whole("positional_embedding"),
    "encoder/norm": norm("ln_final"),
    "projection": linear("text_projection"),
}
_OPENAI_LAYER = layer_rules.by_part(
    {
        "attention_norm": "ln_1",
        "attention_output": "attn.out_proj",
        "mlp_norm": "ln_2",
        "mlp_hidden": "mlp.c_fc",
        "mlp_output": "mlp.c_proj",
    },
    "attn.in_proj_",
)
_TIMM_IMAGE = {
    "encoder/patches": layer_rules.convolution_2d("patch_embed.proj"),
    "encoder/position_embeddings": flat("pos_embed"),
    "encoder/norm": norm("norm"),
    "head": layer_rules.by_part(
        {
            "query": "attn_pool.q",
            "attention_output": "attn_pool.proj",
            "mlp_norm": "attn_pool.norm",
            "mlp_hidden": "attn_pool.mlp.fc1",
            "mlp_output": "attn_pool.mlp.fc2",
        },
        "attn_pool.kv.",
        ("key", "value"),
    ),
    "head/probe": flat("attn_pool.latent"),
}
_TRANSFORMERS_IMAGE = {
    "encoder/patches": layer_rules.convolution_2d("embeddings.patch_embedding"),
    "encoder/class_token": whole("embeddings.class_embedding"),
    "encoder/position_embeddings": whole("embeddings.position_embedding.weight"),
    "encoder/before_norm": norm("pre_layrnorm"),  # The authors' spelling.
    "encoder/norm": norm("post_layernorm"),
    "head": layer_rules.by_part(
        {
            "attention_output": "head.attention.out_proj",
            "mlp_norm": "head.layernorm",
            "mlp_hidden": "head.mlp.fc1",
            "mlp_output": "head.mlp.fc2",
        },
        "head.attention.in_proj_",
    ),
    "head/probe": flat("head.probe"),
}
_TRANSFORMERS_TEXT = {
    "encoder/word_embeddings": whole("embeddings.token_embedding.weight"),
    "encoder/position_embeddings": whole("embeddings.position_embedding.weight"),
    "encoder/norm": norm("final_layer_norm"),
    "projection": linear("head"),
}
_TRANSFORMERS_LAYER = layer_rules.by_part(
    {
        **{part: f"self_attn.{part[0]}_proj" for part in layer_rules.ATTENTION},
        "attention_norm": "layer_norm1",
        "attention_output": "self_attn.out_proj",
        "mlp_norm": "layer_norm2",
        "mlp_hidden": "mlp.fc1",
        "mlp_output": "mlp.fc2",
    }
)
_FLAX_LAYER = {
    **{part: f"MultiHeadDotProductAttention_0/{part}" for part in layer_rules.ATTENTION},
    "attention_norm": "LayerNorm_0",
    "attention_output": "MultiHeadDotProductAttention_0/out",
    "mlp_norm": "LayerNorm_1",
    "mlp_hidden": "MlpBlock_0/Dense_0",
    "mlp_output": "MlpBlock_0/Dense_1",
}
_FLAX_IMAGE = {
    "encoder/patches": layer_rules.same("embedding"),
    "encoder/position_embeddings": flat("pos_embedding"),
    "encoder/norm": layer_rules.same("Transformer/encoder_norm"),
    "head": layer_rules.flax_layer("MAPHead_0/", {**_FLAX_LAYER, "mlp_norm": "LayerNorm_0"}),
    "head/probe": flat("MAPHead_0/probe"),
}
_FLAX_TEXT = {
    "encoder/word_embeddings": whole("Embed_0/embedding"),
    "encoder/position_embeddings": flat("pos_embedding"),
    "encoder/norm": layer_rules.same("Encoder_0/encoder_norm"),
    "projection": layer_rules.same("head"),
}
# One array that only this layout has, what separates its name from a prefix, and the layout.
_LAYOUTS: tuple[tuple[str, str, Callable[[Arrays, str], ClipLayout]], ...] = (
    ("visual.trunk.pos_embed", ".", _timm),
    ("visual.class_embedding", ".", _openai),
    ("visual.attnpool.c_proj.weight", ".", _openai),
    ("vision_model.embeddings.position_embedding.weight", ".", _transformers),
    ("img/pos_embedding", "/", _big_vision),
)
