"""BERT as published by Google (TensorFlow checkpoint, TF-Hub) and in Hugging Face's format."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders.bert import EPSILON
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import (
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
# Settings of tokenizers that the uncased BERT does not turn off.
_UNCASED = (
    *("do_lower_case", "lowercase", "strip_accents"),
    *("tokenize_chinese_chars", "handle_chinese_chars"),
)


@dataclasses.dataclass(frozen=True)
class _Names:
    """The names that one publisher gives to the parts.

    Attributes:
      embeddings: names of the embeddings of words, positions and types.
      norm: name of the layer norm of the embeddings.
      layer: start of the name of a part; {} is the number of the layer.
      parts: our name of a part of a layer -> the publisher's.
      variables: our name of an array of a part -> the publisher's.
      heads: whether the heads are a separate dimension.
    """

    embeddings: tuple[str, str, str]
    norm: str
    layer: str
    parts: Mapping[str, str]
    variables: Mapping[str, str]
    heads: bool = False

    def find(self, leaf: str) -> str:
        """Returns the name of one of our arrays, with {} for the number of its layer."""
        if leaf.endswith("_embeddings"):
            return self.embeddings[("word", "position", "token_type").index(leaf[:-11])]
        *layers, part, array = leaf.split("/")
        start = self.layer + self.parts[part] if layers else self.norm
        is_norm = array == "scale" or part.endswith("_norm")
        return start + self.variables[f"norm_{array}" if is_norm else array]


_GOOGLE_VARIABLES = {
    "kernel": "/kernel",
    "bias": "/bias",
    "norm_scale": "/gamma",
    "norm_bias": "/beta",
}
_GOOGLE = _Names(
    embeddings=(
        "bert/embeddings/word_embeddings",
        "bert/embeddings/position_embeddings",
        "bert/embeddings/token_type_embeddings",
    ),
    norm="bert/embeddings/LayerNorm",
    layer="bert/encoder/layer_{}/",
    parts={
        "query": "attention/self/query",
        "key": "attention/self/key",
        "value": "attention/self/value",
        "attention_output": "attention/output/dense",
        "attention_norm": "attention/output/LayerNorm",
        "mlp_hidden": "intermediate/dense",
        "mlp_output": "output/dense",
        "mlp_norm": "output/LayerNorm",
    },
    variables=_GOOGLE_VARIABLES,
)
HUGGING_FACE_PARTS = {part: name.replace("/", ".") for part, name in _GOOGLE.parts.items()}
"""Our name of a part of a layer -> the name in `transformers`."""
_HUGGING_FACE = _Names(
    embeddings=(
        "embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight",
    ),
    norm="embeddings.LayerNorm",
    layer="encoder.layer.{}.",
    parts=HUGGING_FACE_PARTS,
    variables={
        "kernel": ".weight",
        "bias": ".bias",
        "norm_scale": ".weight",
        "norm_bias": ".bias",
    },
)
# Some published files still have the names of the first releases.
_OLD_HUGGING_FACE = dataclasses.replace(
    _HUGGING_FACE,
    variables={**_HUGGING_FACE.variables, "norm_scale": ".gamma", "norm_bias": ".beta"},
)
_HUB = _Names(
    embeddings=(
        "word_embeddings/embeddings",
        "position_embedding/embeddings",
        "type_embeddings/embeddings",
    ),
    norm="embeddings/layer_norm",
    layer="transformer/layer_{}/",
    parts={
        "query": "self_attention/query",
        "key": "self_attention/key",
        "value": "self_attention/value",
        "attention_output": "self_attention/attention_output",
        "attention_norm": "self_attention_layer_norm",
        "mlp_hidden": "intermediate",
        "mlp_output": "output",
        "mlp_norm": "output_layer_norm",
    },
    variables=_GOOGLE_VARIABLES,
    heads=True,
)
# The first version on TF-Hub.
_FIRST_HUB = dataclasses.replace(
    _HUB,
    embeddings=(
        "word_embeddings/embeddings",
        "embedding_postprocessor/position_embeddings",
        "embedding_postprocessor/type_embeddings",
    ),
    norm="embedding_postprocessor/layer_norm",
    layer="encoder/layer_{}/",
    parts={**_HUB.parts, "attention_output": "self_attention_output"},
)
_ALL = (_GOOGLE, _HUGGING_FACE, _OLD_HUGGING_FACE, _HUB, _FIRST_HUB)


def hugging_face(start: str, depth: int) -> LayerRule:
    """The rule for `transformers.BertModel`; our layers are stacked."""
    return _rule(_HUGGING_FACE, start, depth)


def _rule(names: _Names, start: str, depth: int) -> LayerRule:
    def rule(leaf: str) -> Taken:
        name, (*_, part, array) = start + names.find(leaf), ["", *leaf.split("/")]
        if "{}" not in name:
            return Taken(name)
        stacked = tuple(name.format(number) for number in range(depth))
        if array == "kernel" and names.variables["kernel"] == ".weight":
            return Taken(stacked, np.transpose, "transposed")
        if names.heads and part in ("query", "key", "value", "attention_output"):
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
    rows, width = array_shape(arrays, start + names.embeddings[0])
    hidden = start + names.find("layers/mlp_hidden/bias")
    return {
        "vocab_size": rows,
        "width": width,
        "depth": count_layers(arrays, hidden),
        "heads": heads or count_heads(width),
        "mlp_dim": array_shape(arrays, hidden.format(0))[0],
        "max_positions": array_shape(arrays, start + names.embeddings[1])[0],
    }


def describe_bert(source: WeightSource) -> Published:
    """Returns a published BERT with its pooling and its tokenizer.

    Raises:
      UserError: it is not a BERT, computes something that our BERT does not, has no config, or has
        a vocabulary that keeps the case or differs in size from its embeddings.
    """
    names, start = _find_names(source.arrays)
    config = source.files.get("config.json") or source.files.get("bert_config.json") or {}
    _check_config(config)
    query = source.arrays[start + names.find("layers/query/kernel").format(0)]
    heads = query.shape[1] if names.heads else config.get("num_attention_heads")
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
    _check_uncased(source, vocabulary)
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


def _find_names(arrays: Arrays) -> tuple[_Names, str]:
    """Returns the publisher's names and their common prefix."""
    for names in _ALL:
        norm = names.find("layers/mlp_norm/scale").format(0)
        starts = [name.removesuffix(norm) for name in arrays if name.endswith(norm)]
        found = [start for start in starts if start + names.embeddings[0] in arrays]
        if len(found) > 1:
            raise UserError(f"it holds several BERTs: {sorted(found)}.")
        if found:
            return names, found[0]
    wanted = ", ".join(dict.fromkeys(names.embeddings[0] for names in _ALL))
    shown = ", ".join(sorted(arrays)[:4])
    raise UserError(f"it is not a BERT: it has {shown}, ..., but none of {wanted}.")


def _check_config(config: Mapping[str, Any]) -> None:
    """Raises an error for settings that change the outputs and that our BERT does not support."""
    wanted = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": EPSILON,
        "position_embedding_type": "absolute",
        "is_decoder": False,
    }
    for key, value in wanted.items():
        if config.get(key, value) != value:
            raise UserError(f"its config has {key}={config[key]!r}; supported: {value!r}.")


def _vocabulary(source: WeightSource) -> list[str]:
    if "vocab.txt" in source.files:
        return source.files["vocab.txt"].rstrip("\n").split("\n")
    model = source.files.get("tokenizer.json", {}).get("model", {})
    if model.get("type", "WordPiece") == "WordPiece" and model.get("vocab"):
        return sorted(model["vocab"], key=model["vocab"].get)
    raise UserError("vocab.txt is missing beside the weights.")


def _check_uncased(source: WeightSource, vocabulary: list[str]) -> None:
    normalizer = source.files.get("tokenizer.json", {}).get("normalizer") or {}
    settings = {**normalizer, **source.files.get("tokenizer_config.json", {})}
    flags = [settings.get(name) for name in _UNCASED]
    flags += [bool(x) for name, x in source.arrays.items() if name.endswith("do_lower_case")]
    cased = [token for token in vocabulary if token != token.lower() and token[:1] != "["]
    # In vocabularies of 30,000 pieces, some letters have no lower case.
    if False in flags or len(cased) > len(vocabulary) // 100:
        raise UserError(
            "its tokenizer is not that of the uncased BERT, which lower-cases, strips accents and "
            "splits Chinese characters."
        )


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
