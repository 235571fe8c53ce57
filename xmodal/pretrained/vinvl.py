"""Oscar and VinVL as microsoft/Oscar saves them: `pytorch_model.bin` with its `config.json`.

Folders of retrieval, whose classifier has the classes "no match" and "match"; and of VinVL's
pretraining, whose three classes are a matching triple, wrong tags and a wrong caption
(oscar/datasets/oscar_tsv.py). Tags are the image's own in retrieval: of the latter, the last class
becomes "no match" and the first one "match". The authors' zero-shot score is not published.

The lengths of the inputs, the use of tags and the case are in `training_args.bin`, from which the
authors' evaluation takes them, too (oscar/run_retrieval.py, restore_training_settings).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders.bert import EPSILON
from xmodal.pretrained.bert_weights import (
    HUGGING_FACE,
    HUGGING_FACE_LAYER,
    bert_sizes,
    check_config,
)
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, find_prefix, nest
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.torch_files import attributes, read_objects
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

_WARNING = (
    "microsoft/Oscar ranks by probabilities, which tie near 1, where this model ranks by log-odds; "
    "its 1K of COCO is one list of 1,000 images, not five folds of the test split."
)
_UNUSED = (r"(.*\.)?cls\.", r"(.*\.)?position_ids$")
_DROPOUT = 0.1
_ARGUMENTS = "training_args.bin"
# Arguments of VinVL_MODEL_ZOO.md that describe the inputs.
_INPUTS: Mapping[str, Any] = {
    "max_seq_length": 70,
    "max_img_seq_length": 70,
    "add_od_labels": True,
    "do_lower_case": True,
}


def describe_vinvl(source: WeightSource) -> Published:
    """Returns the model of a checkpoint."""
    arrays, settings = source.arrays, source.files.get("config.json", {})
    check_config(settings)
    start = find_prefix(arrays, "bert.img_embedding.weight")
    bert = f"{start}bert."
    head, retrieves = _find_head(arrays, start)
    arguments, notes = _read_arguments(source, retrieves=retrieves)
    scorer, scorer_table = _describe_scorer(arrays, bert, settings)
    length = min(arguments["max_seq_length"], scorer["positions"])
    rows, _ = arrays[f"{bert}embeddings.word_embeddings.weight"].shape
    text = Description(
        {"name": "token_ids", "vocab_size": rows},
        {"name": "none"},
        {
            "tokenizer": "wordpiece",
            "lower_case": arguments["do_lower_case"],
            "max_length": length,
        },
        words_of(source, rows),
    )
    return Published(
        image=_describe_image(arrays, bert, settings, arguments),
        text=PublishedTower(text, {}),
        similarity={"name": "dot"},
        cross_encoder=scorer | {"length": length},
        layers={"cross_encoder": {**scorer_table, "output": head}},
        notes=(*notes, _WARNING),
        unused=_UNUSED,
    )


def _read_arguments(
    source: WeightSource, *, retrieves: bool
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Returns the arguments of a folder, and a note on those that are assumed.

    A pretraining shares only the case with retrieval.
    """
    path = source.beside(_ARGUMENTS)
    stored = attributes(read_objects(path)) if path.exists() else {}
    known = tuple(_INPUTS) if retrieves else ("do_lower_case",)
    found = {name: stored[name] for name in known if name in stored}
    assumed = [f"{name}={value!r}" for name, value in _INPUTS.items() if name not in found]
    note = f"Assumed as in VinVL's retrieval, for want of a {_ARGUMENTS} of a retrieval that says "
    return {**_INPUTS, **found}, (f"{note}otherwise: {', '.join(assumed)}.",) * bool(assumed)


def _describe_image(
    arrays: Arrays, bert: str, settings: Mapping[str, Any], arguments: Mapping[str, Any]
) -> PublishedTower:
    width, features = arrays[f"{bert}img_embedding.weight"].shape
    encoder = {
        "name": "region_tokens",
        "features": features,
        "width": width,
        "epsilon": settings.get("img_layer_norm_eps", EPSILON),
        "dropout": settings.get("hidden_dropout_prob", _DROPOUT),
    }
    table = {"encoder/regions": f"{bert}img_embedding", "encoder/norm": f"{bert}LayerNorm"}
    inputs = {
        "max_regions": arguments["max_img_seq_length"],
        "tags": arguments["add_od_labels"],
    }
    return PublishedTower(Description(encoder, {"name": "none"}, inputs), table)


def _describe_scorer(
    arrays: Arrays, bert: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Table]:
    layers = nest("", bert, HUGGING_FACE)
    table = {path: rule for path, rule in layers.items() if "embeddings" in path}
    table["pooler"] = f"{bert}pooler.dense"
    sizes = bert_sizes(arrays, layers, settings.get("num_attention_heads"))
    for number in range(sizes["depth"]):
        layer = f"{bert}encoder.layer.{number}."
        table |= nest(f"layers_{number}/layer/", layer, HUGGING_FACE_LAYER)
    dropout = settings.get("hidden_dropout_prob", _DROPOUT)
    return {
        "name": "single_stream",
        "norm_first": False,
        "modalities": False,
        "epsilon": EPSILON,
        "positions": sizes["max_positions"],
        **{name: sizes[name] for name in ("width", "depth", "heads", "mlp_dim")},
        "dropout": dropout,
        "pooled_dropout": dropout,
        "classes": 2,
        "score": "log_odds",
    }, table


def _find_head(arrays: Arrays, start: str) -> tuple[str | Taken, bool]:
    """The linear layer of the score, and whether it was trained for retrieval."""
    classifier, pretrained = f"{start}classifier", f"{start}cls.seq_relationship"
    if f"{classifier}.weight" in arrays:
        return classifier, True
    if len(arrays.get(f"{pretrained}.weight", ())) != 3:
        raise UserError(
            "it has neither a classifier of retrieval nor the three classes, cls.seq_relationship, "
            "of VinVL's pretraining."
        )
    return Taken(pretrained, lambda array: array[np.array([2, 0])]), False
