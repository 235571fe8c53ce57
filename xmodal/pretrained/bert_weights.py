"""BERT as published by Google (TensorFlow checkpoint, TF-Hub) and in Hugging Face's format."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders.bert import EPSILON
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import (
    ATTENTION,
    Arrays,
    LayerRule,
    array_shape,
    count_heads,
    count_layers,
    join_heads,
)
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

_UNUSED = (
    # The heads for pretraining: next sentence, masked words.
    r"(.*[./])?(pooler|pooler_transform|cls|predictions)[./]",
    # Arrays of a training run, and settings that are stored like weights.
    r".*/adam_[mv]$",
    r"(.*/)?(global_step|save_counter|do_lower_case)$",
    r"(.*\.)?position_ids$",
)
# Settings that change the outputs, and what our BERT computes.
_COMPUTED = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "layer_norm_eps": EPSILON,
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
HUGGING_FACE_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "mlp_hidden": "intermediate.dense",
    "mlp_output": "output.dense",
    "mlp_norm": "output.LayerNorm",
}
"""Our name of a part of a layer -> the name in `transformers`."""
_NORM = {"scale": "gamma", "bias": "beta"}
_Names = tuple[tuple[str, str], ...]
"""Replacements, in order, that turn a name of Google's first release into a publisher's."""
_OLD_HUGGING_FACE: _Names = (
    ("bert/", ""),
    ("layer_{}", "layer.{}"),
    ("/", "."),
    (".kernel", ".weight"),
    ("_embeddings", "_embeddings.weight"),
)
# Some published files still have the names of the first releases, above.
_HUGGING_FACE: _Names = (*_OLD_HUGGING_FACE, (".gamma", ".weight"), (".beta", ".bias"))
_HUB_LAYER: _Names = (
    ("attention/self/", "self_attention/"),
    ("attention/output/LayerNorm", "self_attention_layer_norm"),
    ("intermediate/dense", "intermediate"),
    ("output/LayerNorm", "output_layer_norm"),
)
_HUB: _Names = (
    ("bert/embeddings/word_embeddings", "word_embeddings/embeddings"),
    ("bert/embeddings/position_embeddings", "position_embedding/embeddings"),
    ("bert/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
    ("bert/embeddings/LayerNorm", "embeddings/layer_norm"),
    ("bert/encoder", "transformer"),
    ("attention/output/dense", "self_attention/attention_output"),
    *_HUB_LAYER,
    ("output/dense", "output"),
)
# The first version on TF-Hub.
_FIRST_HUB: _Names = (
    ("bert/embeddings/word_embeddings", "word_embeddings/embeddings"),
    ("bert/embeddings/token_type", "embedding_postprocessor/type"),
    ("bert/embeddings/position", "embedding_postprocessor/position"),
    ("bert/embeddings/LayerNorm", "embedding_postprocessor/layer_norm"),
    ("bert/encoder", "encoder"),
    ("attention/output/dense", "self_attention_output"),
    *_HUB_LAYER,
    ("output/dense", "output"),
)
_ALL: tuple[_Names, ...] = ((), _HUGGING_FACE, _OLD_HUGGING_FACE, _HUB, _FIRST_HUB)


def hugging_face(start: str, depth: int) -> LayerRule:
    """The rule for `transformers.BertModel`; our layers are stacked."""
    return _rule(_HUGGING_FACE, start, depth)


def _find(names: _Names, leaf: str) -> str:
    """Returns a publisher's name of one of our arrays, with {} for the number of its layer."""
    *layers, part, array = ["", *leaf.split("/")]
    if array.endswith("_embeddings"):
        name = f"bert/embeddings/{array}"
    else:
        place = HUGGING_FACE_PARTS[part].replace(".", "/") if layers[1:] else ""
        start = f"bert/encoder/layer_{{}}/{place}" if place else "bert/embeddings/LayerNorm"
        array = _NORM[array] if part.endswith("_norm") else array
        name = f"{start}/{array}"
    for old, new in names:
        name = name.replace(old, new)
    return name


def _rule(names: _Names, start: str, depth: int) -> LayerRule:
    def rule(leaf: str) -> Taken:
        name, (*_, part, array) = start + _find(names, leaf), ["", *leaf.split("/")]
        if "{}" not in name:
            return Taken(name)
        stacked = tuple(name.format(number) for number in range(depth))
        if array == "kernel" and name.endswith(".weight"):
            return Taken(stacked, np.transpose, "transposed")
        if names in (_HUB, _FIRST_HUB) and part in (*ATTENTION, "attention_output"):
            return Taken(stacked, join_heads(part, array), "heads joined")
        return Taken(stacked)

    return rule


def bert_sizes(arrays: Arrays, start: str, heads: int | None = None) -> dict[str, Any]:
    """Returns the keywords of a BERT in the names of `transformers`.

    Args:
      arrays: arrays of the source.
      start: start of their names.
      heads: attention heads; None for the usual number of its width.
    """
    return _sizes(arrays, _HUGGING_FACE, start, heads)


def _sizes(arrays: Arrays, names: _Names, start: str, heads: int | None) -> dict[str, Any]:
    rows, width = array_shape(arrays, start + _find(names, "word_embeddings"))
    hidden = start + _find(names, "layers/mlp_hidden/bias")
    return {
        "vocab_size": rows,
        "width": width,
        "depth": count_layers(arrays, hidden),
        "heads": heads or count_heads(width),
        "mlp_dim": array_shape(arrays, hidden.format(0))[0],
        "max_positions": array_shape(arrays, start + _find(names, "position_embeddings"))[0],
    }


def describe_bert(source: WeightSource) -> Published:
    """Returns a published BERT with its pooling and its tokenizer.

    Raises:
      UserError: it is not a BERT, computes something that our BERT does not, has no config, or has
        a vocabulary that keeps the case or differs in size from its embeddings.
    """
    names, start = _find_names(source.arrays)
    config = source.files.get("config.json") or source.files.get("bert_config.json") or {}
    check_config(config)
    query = source.arrays[start + _find(names, "layers/query/kernel").format(0)]
    heads = query.shape[1] if query.ndim == 3 else config.get("num_attention_heads")
    if heads is None:
        raise UserError(
            "its number of heads is not known: put its config.json or bert_config.json beside it."
        )
    sizes = _sizes(source.arrays, names, start, heads)
    vocabulary = _vocabulary(source)
    if len(vocabulary) != sizes["vocab_size"]:
        raise UserError(
            f"the vocabulary has {len(vocabulary):,} word pieces but the embeddings have "
            f"{sizes['vocab_size']:,} rows; take the one that was published with the weights."
        )
    cased = [token for token in vocabulary if token != token.lower() and token[:1] != "["]
    settings = source.files.get("tokenizer_config.json", {})
    # In vocabularies of 30,000 pieces, some letters have no lower case.
    if settings.get("do_lower_case") is False or len(cased) > len(vocabulary) // 100:
        raise UserError("its tokenizer keeps the case: take the weights of an uncased BERT.")
    pool, is_normalized = _pooling(source)
    longest = source.files.get("sentence_bert_config.json", {}).get("max_seq_length")
    preprocessing = {
        "tokenizer": "wordpiece",
        "lower_case": True,
        "max_length": min(longest or sizes["max_positions"], sizes["max_positions"]),
        "similarity": "cosine" if is_normalized else None,
    }
    text = source.files.get("vocab.txt") or "".join(f"{token}\n" for token in vocabulary)
    head = None if pool is None else {"name": pool}
    files = {"vocab.txt": text.encode()}
    described = Description({"name": "bert", **sizes}, head, preprocessing, files)
    layers = {"text": {"encoder": _rule(names, start, sizes["depth"])}}
    return Published({"text": described}, layers, unused=_UNUSED)


def check_config(config: Mapping[str, Any]) -> None:
    """Checks that our BERT computes what a `config.json` of `transformers` asks for.

    Raises:
      UserError: it does not.
    """
    for key, value in _COMPUTED.items():
        if config.get(key, value) != value:
            raise UserError(f"its config has {key}={config[key]!r}; supported: {value!r}.")


def _find_names(arrays: Arrays) -> tuple[_Names, str]:
    """Returns the publisher's names and their common prefix."""
    for names in _ALL:
        norm = _find(names, "layers/mlp_norm/scale").format(0)
        starts = [name.removesuffix(norm) for name in arrays if name.endswith(norm)]
        found = [start for start in starts if start + _find(names, "word_embeddings") in arrays]
        if len(found) > 1:
            raise UserError(f"it holds several BERTs: {sorted(found)}.")
        if found:
            return names, found[0]
    wanted = ", ".join(dict.fromkeys(_find(names, "word_embeddings") for names in _ALL))
    shown = ", ".join(sorted(arrays)[:4])
    raise UserError(f"it is not a BERT: it has {shown}, ..., but none of {wanted}.")


def _vocabulary(source: WeightSource) -> list[str]:
    if "vocab.txt" in source.files:
        return source.files["vocab.txt"].rstrip("\n").split("\n")
    model = source.files.get("tokenizer.json", {}).get("model", {})
    if model.get("type", "WordPiece") == "WordPiece" and model.get("vocab"):
        return sorted(model["vocab"], key=model["vocab"].get)
    raise UserError("vocab.txt is missing beside the weights.")


def _pooling(source: WeightSource) -> tuple[str | None, bool]:
    """Returns the head of a sentence encoder or None, and whether it divides by norms."""
    kinds = [module["type"].rpartition(".")[2] for module in source.files.get("modules.json", ())]
    if others := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise UserError(f"it has modules after BERT that are not known: {others}.")
    settings = source.files.get("1_Pooling/config.json")
    if settings is None:
        if "Pooling" in kinds or "sentence_bert_config.json" in source.files:
            raise UserError("it is a sentence encoder, but 1_Pooling/config.json is missing.")
        return None, False
    start = "pooling_mode_"
    modes = [
        key.removeprefix(start) for key, on in settings.items() if key.startswith(start) and on
    ]
    modes = modes or [settings.get("pooling_mode")]
    known = {"mean_tokens": "mean", "mean": "mean", "cls_token": "cls", "cls": "cls"}
    if len(modes) > 1 or modes[0] not in known:
        raise UserError(f"it pools by {modes}; known: {sorted(known)}, one of them.")
    return known[modes[0]], "Normalize" in kinds
