"""The names of CLIP and SigLIP in the files of four publishers, by our names.

openai/CLIP and mlfoundations/open_clip share one layout, and open_clip has timm's for SigLIP;
transformers and google-research/big_vision have their own.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.layer_rules import (
    ATTENTION,
    TIMM_LAYER,
    Arrays,
    Table,
    Taken,
    count_layers,
    find,
    nest,
    split,
    with_axes,
)

_OPENAI_LAYER: Table = {
    "attention_norm": "ln_1",
    **split("attn.in_proj_"),
    "attention_output": "attn.out_proj",
    "mlp_norm": "ln_2",
    "mlp_hidden": "mlp.c_fc",
    "mlp_output": "mlp.c_proj",
}
_OPENAI_TEXT: Table = {
    "encoder/word_embeddings": "token_embedding.weight",
    "encoder/position_embeddings": "positional_embedding",
    **nest("encoder/layers/", "transformer.resblocks.{}.", _OPENAI_LAYER),
    "encoder/norm": "ln_final",
    "projection": "text_projection",
}
_OPENAI_VIT: Table = {
    "encoder/patches": "conv1",
    "encoder/class_token": "class_embedding",
    "encoder/position_embeddings": "positional_embedding",
    "encoder/before_norm": "ln_pre",
    **nest("encoder/layers/", "transformer.resblocks.{}.", _OPENAI_LAYER),
    "encoder/norm": "ln_post",
    "projection/kernel": "proj",
}
_UNIT = {
    **{name: f"conv{n}" for n, name in enumerate(("reduce", "spatial", "expand"), 1)},
    **{f"{name}_norm": f"bn{n}" for n, name in enumerate(("reduce", "spatial", "expand"), 1)},
    "shortcut": "downsample.0",
    "shortcut_norm": "downsample.1",
}
_OPENAI_RESNET: Table = {
    **{f"encoder/stem{n}": f"conv{n}" for n in (1, 2, 3)},
    **{f"encoder/stem{n}_norm": f"bn{n}" for n in (1, 2, 3)},
    **{f"head/{part}": f"attnpool.{part[0]}_proj" for part in ATTENTION},
    "head/output": "attnpool.c_proj",
    "head/position_embeddings": "attnpool.positional_embedding",
}
TIMM_IMAGE: Table = {
    "encoder/patches": "patch_embed.proj",
    "encoder/position_embeddings": "pos_embed",
    **nest("encoder/layers/", "blocks.{}.", TIMM_LAYER),
    "encoder/norm": "norm",
    "head/probe": "attn_pool.latent",
    "head/query": "attn_pool.q",
    **nest("head/", "", split("attn_pool.kv", ("key", "value"))),
    "head/attention_output": "attn_pool.proj",
    "head/mlp_norm": "attn_pool.norm",
    "head/mlp_hidden": "attn_pool.mlp.fc1",
    "head/mlp_output": "attn_pool.mlp.fc2",
}
_TRANSFORMERS_LAYER: Table = {
    "attention_norm": "layer_norm1",
    **{part: f"self_attn.{part[0]}_proj" for part in ATTENTION},
    "attention_output": "self_attn.out_proj",
    "mlp_norm": "layer_norm2",
    "mlp_hidden": "mlp.fc1",
    "mlp_output": "mlp.fc2",
}
TRANSFORMERS_IMAGE: Table = {
    "encoder/patches": "embeddings.patch_embedding",
    "encoder/class_token": "embeddings.class_embedding",
    "encoder/position_embeddings": "embeddings.position_embedding.weight",
    "encoder/before_norm": "pre_layrnorm",  # The authors' spelling.
    **nest("encoder/layers/", "encoder.layers.{}.", _TRANSFORMERS_LAYER),
    "encoder/norm": "post_layernorm",
    "head/probe": with_axes("head.probe", 2),
    **nest("head/", "", split("head.attention.in_proj_")),
    "head/attention_output": "head.attention.out_proj",
    "head/mlp_norm": "head.layernorm",
    "head/mlp_hidden": "head.mlp.fc1",
    "head/mlp_output": "head.mlp.fc2",
}
_TRANSFORMERS_TEXT: Table = {
    "encoder/word_embeddings": "embeddings.token_embedding.weight",
    "encoder/position_embeddings": "embeddings.position_embedding.weight",
    **nest("encoder/layers/", "encoder.layers.{}.", _TRANSFORMERS_LAYER),
    "encoder/norm": "final_layer_norm",
    "projection": "head",
}
_FLAX_LAYER: Table = {
    "attention_norm": "LayerNorm_0",
    **{part: f"MultiHeadDotProductAttention_0/{part}" for part in ATTENTION},
    "attention_output": "MultiHeadDotProductAttention_0/out",
    "mlp_norm": "LayerNorm_1",
    "mlp_hidden": "MlpBlock_0/Dense_0",
    "mlp_output": "MlpBlock_0/Dense_1",
}
_FLAX_IMAGE: Table = {
    "encoder/patches": "embedding",
    "encoder/position_embeddings": "pos_embedding",
    **nest("encoder/layers/", "Transformer/encoderblock_{}/", _FLAX_LAYER),
    "encoder/norm": "Transformer/encoder_norm",
    **nest("head/", "MAPHead_0/", _FLAX_LAYER),
    "head/mlp_norm": "MAPHead_0/LayerNorm_0",
    "head/probe": "MAPHead_0/probe",
}
_FLAX_TEXT: Table = {
    "encoder/word_embeddings": "Embed_0/embedding",
    "encoder/position_embeddings": "pos_embedding",
    **nest("encoder/layers/", "Encoder_0/encoderblock_{}/", _FLAX_LAYER),
    "encoder/norm": "Encoder_0/encoder_norm",
    "projection": "head",
}
# The kind of a layout, an array that only this layout has, the start and the table of the image
# tower, and those of the text tower.
_LAYOUTS: tuple[tuple[str, str, str, Table, str, Table], ...] = (
    ("timm", "visual.trunk.pos_embed", "visual.trunk.", TIMM_IMAGE, "", _OPENAI_TEXT),
    ("openai", "visual.class_embedding", "visual.", _OPENAI_VIT, "", _OPENAI_TEXT),
    ("openai", "visual.attnpool.c_proj.weight", "visual.", _OPENAI_RESNET, "", _OPENAI_TEXT),
    ("transformers", "vision_model.embeddings.position_embedding.weight", "vision_model.",
     TRANSFORMERS_IMAGE, "text_model.", _TRANSFORMERS_TEXT),
    ("big_vision", "img/pos_embedding", "img/", _FLAX_IMAGE, "txt/", _FLAX_TEXT),
)  # fmt: skip


class ClipLayout(NamedTuple):
    """The names of the arrays of a model in a source.

    Attributes:
      kind: "openai", "timm", "transformers" or "big_vision".
      arrays: arrays of the source.
      towers: "image" and "text" -> the table of its arrays.
      parameters: names of the scale and the bias of the similarity.
    """

    kind: str
    arrays: Arrays
    towers: Mapping[str, Table]
    parameters: dict[str, str]

    @property
    def is_clip(self) -> bool:
        """Whether it is a CLIP; a SigLIP pools by attention with a probe."""
        return not self.has("image/head/probe")

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of one of our arrays, such as `image/encoder/norm/scale`.

        Heads that are an axis of their own are not joined.
        """
        modality, _, path = name.partition("/")
        taken = find(self.arrays, self.towers[modality], path)
        first = taken.change(np.asarray(self.arrays[taken.name.format(0)]))
        if "{}" in taken.name:
            return count_layers(self.arrays, taken.name), *first.shape
        return first.shape

    def has(self, name: str) -> bool:
        """Returns whether the source has the array that one of ours is made of."""
        try:
            self.shape(name)
        except (KeyError, UserError):
            return False
        return True


def find_layout(arrays: Arrays) -> ClipLayout:
    """Returns the layout of a source."""
    for kind, anchor, image, image_table, text, text_table in _LAYOUTS:
        separator = "/" if kind == "big_vision" else "."
        pattern = re.compile(rf"((?:.*{re.escape(separator)})?){re.escape(anchor)}")
        found = [match[1] for match in map(pattern.fullmatch, arrays) if match]
        if len(found) > 1:
            raise UserError(f"it has several arrays {anchor!r}, but needs one: {sorted(found)}.")
        if not found:
            continue
        start = found[0]
        if f"{start}text.token_embedding.weight" in arrays:  # As in some models of open_clip.
            text = "text."
        tables = nest("", start + image, image_table), nest("", start + text, text_table)
        _adapt(kind, arrays, start, *tables)
        towers = dict(zip(("image", "text"), tables, strict=True))
        scale, bias = ("t", "b") if kind == "big_vision" else ("logit_scale", "logit_bias")
        return ClipLayout(kind, arrays, towers, {"log_scale": start + scale, "bias": start + bias})
    wanted = ", ".join(repr(row[1]) for row in _LAYOUTS)
    shown = ", ".join(sorted(arrays)[:4])
    raise UserError(
        f"it is not a CLIP or SigLIP of a fixed size: it has {shown}, ..., but none of {wanted}."
    )


def _adapt(
    kind: str,
    arrays: Arrays,
    start: str,
    image: dict[str, str | Taken],
    text: dict[str, str | Taken],
) -> None:
    """Changes the tables where models of one layout differ."""
    if kind == "big_vision":
        for table in (image, text):  # The layers may be stacked.
            if str(table["encoder/layers/mlp_norm"]).replace("_{}", "") + "/scale" in arrays:
                table |= {path: str(name).replace("_{}", "") for path, name in table.items()}
    elif kind == "transformers" and f"{start}visual_projection.weight" in arrays:
        image["projection"] = f"{start}visual_projection"
        text["projection"] = f"{start}text_projection"
    elif (matrix := str(text["projection"])) in arrays:
        # A matrix of inputs x outputs, but in SigLIP a linear layer.
        text["projection/kernel"] = matrix
    for stage in range(1, 5):
        unit = f"{start}visual.layer{stage}.{{}}."
        for number in range(count_layers(arrays, f"{unit}conv1.weight")):
            image |= nest(f"encoder/stage{stage}_unit{number + 1}/", unit.format(number), _UNIT)
