"""Oscar and VinVL as microsoft/Oscar saves them: `pytorch_model.bin` with its `config.json`.

The lengths of the inputs and the use of tags are in `training_args.bin`, see `oscar_arguments`.
Folders of retrieval, whose classifier has the classes "no match" and "match"; and of VinVL's
pretraining, whose three classes are a matching triple, wrong tags and a wrong caption
(oscar/datasets/oscar_tsv.py). Tags are the image's own in retrieval: of the latter, the last class
becomes "no match" and the first one "match". The authors' zero-shot score is not published.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders.bert import EPSILON
from xmodal.pretrained import layer_rules, torch_models
from xmodal.pretrained.bert_weights import HUGGING_FACE_PARTS
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.oscar_arguments import read_oscar_arguments
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published
from xmodal.pretrained.weight_files import WeightSource

WARNING = (
    "microsoft/Oscar ranks by probabilities, which tie near 1, where this model ranks by log-odds; "
    "its 1K of COCO is one list of 1,000 images, not five folds of the test split."
)
"""Differences of the evaluation of these folders by their authors."""

EXPECTED_UNEXPECTED = (r"(.*\.)?cls\.", r"(.*\.)?position_ids$")

_HEAD_WIDTH = 64
_DROPOUT = 0.1
_HIDDEN = "intermediate.dense.weight"
# Values of config.json that other checkpoints of BERT's architecture may have.
_REQUIRED = {"hidden_act": "gelu", "layer_norm_eps": EPSILON}


def describe_vinvl(source: WeightSource) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not an Oscar or VinVL with a head for matching, or its `config.json` or
        `training_args.bin` asks for options that the released models lack.
    """
    arrays, settings = source.arrays, source.files.get("config.json", {})
    for name, value in _REQUIRED.items():
        if settings.get(name, value) != value:
            raise UserError(f"its config.json has {name}={settings[name]!r}, not {value!r}.")
    start = torch_models.find_prefix(arrays, "bert.img_embedding.weight")
    bert = f"{start}bert."
    if f"{bert}LayerNorm.weight" not in arrays:
        raise UserError("it has no layer norm of regions (use_img_layernorm), as VinVL has.")
    head, retrieves = _find_head(arrays, start)
    arguments = read_oscar_arguments(source, retrieves=retrieves)
    encoder, image_layers = _describe_image(arrays, bert, settings)
    scorer, scorer_layers = _describe_scorer(arrays, bert, settings)
    inputs = {"max_regions": arguments.regions, "tags": arguments.tags}
    length = min(arguments.words, scorer["positions"])
    rows, _ = torch_models.array_shape(arrays, f"{bert}embeddings.word_embeddings.weight")
    text = Description(
        {"name": "token_ids", "vocab_size": rows},
        {"name": "none"},
        {"tokenizer": "wordpiece", "lower_case": arguments.lower_case, "max_length": length},
    )
    return Published(
        sides={"image": Description(encoder, {"name": "none"}, inputs), "text": text},
        similarity={"name": "dot"},
        layers={
            "image": image_layers,
            "text": {},
            "pair_scorer": {**scorer_layers, "output": head},
        },
        pair_scorer=scorer | {"length": length},
        notes=(arguments.note,) if arguments.note else (),
    )


def _describe_image(
    arrays: Arrays, bert: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    width, features = torch_models.array_shape(arrays, f"{bert}img_embedding.weight")
    encoder = {
        "name": "region_tokens",
        "features": features,
        "width": width,
        "epsilon": settings.get("img_layer_norm_eps", EPSILON),
        "dropout": settings.get("hidden_dropout_prob", _DROPOUT),
    }
    rules = {
        "encoder/regions": torch_models.linear(f"{bert}img_embedding"),
        "encoder/norm": torch_models.norm(f"{bert}LayerNorm"),
    }
    return encoder, rules


def _describe_scorer(
    arrays: Arrays, bert: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    words, layers = f"{bert}embeddings.", f"{bert}encoder.layer.{{}}."
    rules = {
        name: torch_models.whole(f"{words}{name}.weight")
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
    }
    rules["embeddings_norm"] = torch_models.norm(f"{words}LayerNorm")
    depth = layer_rules.count_layers(arrays, f"{layers}{_HIDDEN}")
    layer = layer_rules.by_part(HUGGING_FACE_PARTS)
    for number in range(depth):
        rules |= layer_rules.below(layers.format(number), {f"layers_{number}/layer": layer})
    rules["pooler"] = torch_models.linear(f"{bert}pooler.dense")
    positions, width = torch_models.array_shape(arrays, f"{words}position_embeddings.weight")
    hidden, _ = torch_models.array_shape(arrays, f"{layers.format(0)}{_HIDDEN}")
    return {
        "name": "single_stream", "norm_first": False, "modalities": False, "epsilon": EPSILON,
        "width": width, "depth": depth, "mlp_dim": hidden, "positions": positions,
        "heads": settings.get("num_attention_heads", max(1, width // _HEAD_WIDTH)),
        "dropout": settings.get("hidden_dropout_prob", _DROPOUT),
        "pooled_dropout": settings.get("hidden_dropout_prob", _DROPOUT),
        "classes": 2, "score": "log_odds",
    }, rules  # fmt: skip


def _find_head(arrays: Arrays, start: str) -> tuple[LayerRule, bool]:
    """The rule for the linear layer of the score, and whether it was trained for retrieval."""
    classifier, pretrained = f"{start}classifier", f"{start}cls.seq_relationship"
    if f"{classifier}.weight" in arrays:
        return torch_models.linear(classifier), True
    if len(arrays.get(f"{pretrained}.weight", ())) != 3:
        raise UserError(
            "it has neither a classifier of retrieval nor the three classes, cls.seq_relationship, "
            "of VinVL's pretraining."
        )

    def rule(leaf: str) -> Taken:
        taken = torch_models.linear(pretrained)(leaf)
        return Taken(taken.name, lambda array: array[np.array([2, 0])].T, "classes 2 and 0")

    return rule, False
