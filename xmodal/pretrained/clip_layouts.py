"""The names of CLIP and SigLIP in the files of four publishers, by our names.

openai/CLIP and mlfoundations/open_clip share one layout, and open_clip has timm's for SigLIP;
transformers and google-research/big_vision have their own.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules, torch_models
from xmodal.pretrained.torch_models import Arrays, LayerRule


class ClipLayout(NamedTuple):
    """The names of the arrays of a model in a source.

    Attributes:
      kind: "openai", "timm", "transformers" or "big_vision".
      image: path of one of our layers -> its rule, see `torch_models.Published`.
      text: the same for the other side.
      parameters: names of the scale and the bias of the similarity.
    """

    kind: str
    image: dict[str, LayerRule]
    text: dict[str, LayerRule]
    parameters: dict[str, str]

    def shape(self, arrays: Arrays, name: str) -> tuple[int, ...]:
        """Returns the shape of one of our arrays, such as `image/encoder/norm/scale`.

        Raises:
          UserError: the source has no such array, or one with other axes.
        """
        side, _, path = name.partition("/")
        rules = self.image if side == "image" else self.text
        layer = max((each for each in rules if f"{path}/".startswith(f"{each}/")), key=len)
        taken = rules[layer](path.removeprefix(layer).removeprefix("/"))
        stacked = () if isinstance(taken.name, str) else (len(taken.name),)
        source = taken.name if isinstance(taken.name, str) else (*taken.name, "layer 0")[0]
        shape = torch_models.array_shape(arrays, source)
        try:
            changed = np.asarray(arrays[source])
            return *stacked, *(changed if taken.change is None else taken.change(changed)).shape
        except (ValueError, IndexError) as error:
            raise UserError(f"{source} has the shape {list(shape)}: {error}.") from error

    def has(self, arrays: Arrays, name: str) -> bool:
        """Returns whether the source has the array that one of ours is made of."""
        try:
            self.shape(arrays, name)
        except (UserError, KeyError, ValueError):
            return False
        return True


def find_layout(arrays: Arrays) -> ClipLayout:
    """Returns the layout of a source.

    Raises:
      UserError: it is neither a CLIP nor a SigLIP, holds several, or is a NaFlex model.
    """
    _refuse_naflex(arrays)
    for anchor, separator, make in _LAYOUTS:
        pattern = re.compile(rf"((?:.*{re.escape(separator)})?){re.escape(anchor)}")
        found = [match[1] for match in map(pattern.fullmatch, arrays) if match]
        if len(found) > 1:
            raise UserError(f"it has several arrays {anchor!r}, but needs one: {sorted(found)}.")
        if found:
            layout = make(arrays, found[0])
            _check_pooling(layout, arrays)
            return layout
    raise UserError(
        f"it is not a CLIP or SigLIP: it has none of {', '.join(repr(row[0]) for row in _LAYOUTS)}."
    )


def _refuse_naflex(arrays: Arrays) -> None:
    """Raises an error for positions of patches that form a grid with axes of its own."""
    for name in arrays:
        of_timm = re.fullmatch(r"(.*\.)?visual\.trunk\.embeds\.pos_embed", name)
        if not of_timm and not re.fullmatch(r"(.*/)?img/pos_embedding", name):
            continue
        shape = torch_models.array_shape(arrays, name)
        if of_timm or (len(shape) == 3 and shape[0] > 1):
            raise UserError(
                f"it is a NaFlex model, whose pictures keep their aspect ratio ({name} is "
                f"{list(shape)}), which is not supported: take a SigLIP 2 of a fixed size."
            )


def _check_pooling(layout: ClipLayout, arrays: Arrays) -> None:
    """Raises an error for image towers of open_clip that are pooled in another way."""
    pooled = ("encoder/class_token", "head/probe", "head/output/kernel")
    if not any(layout.has(arrays, f"image/{name}") for name in pooled):
        raise UserError(
            "it is not a CLIP or SigLIP: its image side has neither a class token or attention "
            "pooling as openai/CLIP has, nor a probe as SigLIP has; other image towers of "
            "open_clip are not supported."
        )


def _openai(arrays: Arrays, start: str) -> ClipLayout:
    """A ViT or a ResNet; `start` may be `state_dict.module.`."""
    visual = f"{start}visual."
    is_vit = f"{visual}class_embedding" in arrays
    image = layer_rules.below(visual, _OPENAI_VIT if is_vit else _OPENAI_RESNET)
    if is_vit:
        image["encoder/layers"] = _openai_layers(arrays, visual)
    return ClipLayout("openai", image, _openai_text(arrays, start), _scale(start))


def _openai_layers(arrays: Arrays, start: str) -> LayerRule:
    layer = f"{start}transformer.resblocks.{{}}."
    return layer_rules.stack(arrays, layer, _OPENAI_LAYER, "ln_1.weight")


def _openai_text(arrays: Arrays, start: str) -> dict[str, LayerRule]:
    """The text side, whose names begin with `text.` in some models of open_clip."""
    text = f"{start}text." if f"{start}text.token_embedding.weight" in arrays else start
    rules = layer_rules.below(
        text,
        {
            "encoder/word_embeddings": torch_models.whole("token_embedding.weight"),
            "encoder/position_embeddings": torch_models.whole("positional_embedding"),
            "encoder/norm": torch_models.norm("ln_final"),
            "projection": torch_models.linear("text_projection"),
        },
    )
    # A matrix of inputs x outputs, but in SigLIP a linear layer.
    if f"{text}text_projection" in arrays:
        rules["projection/kernel"] = torch_models.whole(f"{text}text_projection")
    return {**rules, "encoder/layers": _openai_layers(arrays, text)}


def _timm(arrays: Arrays, start: str) -> ClipLayout:
    trunk = f"{start}visual.trunk."
    image = layer_rules.below(
        trunk,
        {
            "encoder/patches": torch_models.convolution_2d("patch_embed.proj"),
            "encoder/position_embeddings": layer_rules.flat("pos_embed"),
            "encoder/norm": torch_models.norm("norm"),
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
            "head/probe": layer_rules.flat("attn_pool.latent"),
        },
    )
    image["encoder/layers"] = layer_rules.stack(
        arrays, f"{trunk}blocks.{{}}.", layer_rules.TIMM_LAYER, "norm1.weight"
    )
    return ClipLayout("timm", image, _openai_text(arrays, start), _scale(start))


def _transformers(arrays: Arrays, start: str) -> ClipLayout:
    vision, words = f"{start}vision_model.", f"{start}text_model."
    image = layer_rules.below(vision, _TRANSFORMERS_IMAGE)
    text = layer_rules.below(words, _TRANSFORMERS_TEXT)
    for prefix, rules in ((vision, image), (words, text)):
        rules["encoder/layers"] = layer_rules.stack(
            arrays, f"{prefix}encoder.layers.{{}}.", _TRANSFORMERS_LAYER, "layer_norm1.weight"
        )
    if f"{start}visual_projection.weight" in arrays:
        image["projection"] = torch_models.linear(f"{start}visual_projection")
        text["projection"] = torch_models.linear(f"{start}text_projection")
    return ClipLayout("transformers", image, text, _scale(start))


def _big_vision(arrays: Arrays, start: str) -> ClipLayout:
    image = layer_rules.below(
        f"{start}img/",
        {
            "encoder/patches": layer_rules.same("embedding"),
            "encoder/position_embeddings": layer_rules.flat("pos_embedding"),
            "encoder/norm": layer_rules.same("Transformer/encoder_norm"),
            "head": layer_rules.flax_layer("MAPHead_0/", _FLAX_MAP),
            "head/probe": layer_rules.flat("MAPHead_0/probe"),
        },
    )
    text = layer_rules.below(
        f"{start}txt/",
        {
            "encoder/word_embeddings": torch_models.whole("Embed_0/embedding"),
            "encoder/position_embeddings": layer_rules.flat("pos_embedding"),
            "encoder/norm": layer_rules.same("Encoder_0/encoder_norm"),
            "projection": layer_rules.same("head"),
        },
    )
    for rules, stack in ((image, "img/Transformer"), (text, "txt/Encoder_0")):
        block = f"{start}{stack}/encoderblock"
        if f"{block}/LayerNorm_0/scale" in arrays:
            rules["encoder/layers"] = layer_rules.flax_layer(f"{block}/", _FLAX_LAYER, lead=1)
        else:
            layer = layer_rules.flax_layer("", _FLAX_LAYER)
            rules["encoder/layers"] = layer_rules.stack(
                arrays, f"{block}_{{}}/", layer, "LayerNorm_0/scale"
            )
    names = {"log_scale": f"{start}t", "bias": f"{start}b"}
    return ClipLayout("big_vision", image, text, names)


def _scale(start: str) -> dict[str, str]:
    return {"log_scale": f"{start}logit_scale", "bias": f"{start}logit_bias"}


_OPENAI_VIT = {
    "encoder/patches": torch_models.convolution_2d("conv1"),
    "encoder/class_token": torch_models.whole("class_embedding"),
    "encoder/position_embeddings": torch_models.whole("positional_embedding"),
    "encoder/before_norm": torch_models.norm("ln_pre"),
    "encoder/norm": torch_models.norm("ln_post"),
    "projection/kernel": torch_models.whole("proj"),
}
_OPENAI_RESNET = {
    "encoder": layer_rules.modified_resnet(),
    "head": layer_rules.by_part(
        {
            **{part: f"attnpool.{part[0]}_proj" for part in layer_rules.ATTENTION},
            "output": "attnpool.c_proj",
        }
    ),
    "head/position_embeddings": torch_models.whole("attnpool.positional_embedding"),
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
_TRANSFORMERS_IMAGE = {
    "encoder/patches": torch_models.convolution_2d("embeddings.patch_embedding"),
    "encoder/class_token": torch_models.whole("embeddings.class_embedding"),
    "encoder/position_embeddings": torch_models.whole("embeddings.position_embedding.weight"),
    "encoder/before_norm": torch_models.norm("pre_layrnorm"),  # The authors' spelling.
    "encoder/norm": torch_models.norm("post_layernorm"),
    "head": layer_rules.by_part(
        {
            "attention_output": "head.attention.out_proj",
            "mlp_norm": "head.layernorm",
            "mlp_hidden": "head.mlp.fc1",
            "mlp_output": "head.mlp.fc2",
        },
        "head.attention.in_proj_",
    ),
    "head/probe": layer_rules.flat("head.probe"),
}
_TRANSFORMERS_TEXT = {
    "encoder/word_embeddings": torch_models.whole("embeddings.token_embedding.weight"),
    "encoder/position_embeddings": torch_models.whole("embeddings.position_embedding.weight"),
    "encoder/norm": torch_models.norm("final_layer_norm"),
    "projection": torch_models.linear("head"),
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
_FLAX_MAP = {**_FLAX_LAYER, "mlp_norm": "LayerNorm_0"}
# One array that only this layout has, what separates its name from a prefix, and the layout.
_LAYOUTS: tuple[tuple[str, str, Callable[[Arrays, str], ClipLayout]], ...] = (
    ("visual.trunk.pos_embed", ".", _timm),
    ("visual.class_embedding", ".", _openai),
    ("visual.attnpool.c_proj.weight", ".", _openai),
    ("vision_model.embeddings.position_embedding.weight", ".", _transformers),
    ("img/pos_embedding", "/", _big_vision),
)
