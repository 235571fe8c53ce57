"""BERT as published by Google (TensorFlow checkpoint, TF-Hub) and in Hugging Face's format."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.conversion_report import Mapper, Report, Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.weight_files import WeightSource

EXPECTED_UNEXPECTED = (
    # The heads for pretraining: next sentence, masked words.
    r"(.*[./])?(pooler|pooler_transform|cls|predictions)[./]",
    # Arrays of a training run, and settings that are stored like weights.
    r".*/adam_[mv]$",
    r"(.*/)?(global_step|save_counter|do_lower_case)$",
    r"(.*\.)?position_ids$",
)
"""Arrays of published files that are not part of the encoder, as regular expressions."""

_SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
}


@dataclasses.dataclass(frozen=True)
class _Names:
    """The names that one publisher gives to the parts.

    Attributes:
      embeddings: names of the embeddings of words, positions and types.
      norm: name of the layer norm of the embeddings.
      layer: start of the name of a part; {} is the number of the layer.
      parts: our name of a part of a layer -> the publisher's.
      end: separator between a part and its variable.
      kernel: name of a matrix.
      norms: possible names of scale and bias of a layer norm.
      heads: whether the heads are a separate dimension.
    """

    embeddings: tuple[str, str, str]
    norm: str
    layer: str
    parts: Mapping[str, str]
    end: str
    kernel: str
    norms: tuple[tuple[str, str], ...]
    heads: bool = False


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
    end="/",
    kernel="kernel",
    norms=(("gamma", "beta"),),
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
    end=".",
    kernel="weight",
    # Some published files still have the names of the first releases.
    norms=(("weight", "bias"), ("gamma", "beta")),
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
    end="/",
    kernel="kernel",
    norms=(("gamma", "beta"),),
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
_ALL = (_GOOGLE, _HUGGING_FACE, _HUB, _FIRST_HUB)


def convert_bert(
    arrays: Mapping[str, np.ndarray],
    *,
    vocab_size: int,
    width: int,
    depth: int,
    heads: int,
    mlp_dim: int,
    max_positions: int,
    **others: Any,
) -> tuple[dict[str, np.ndarray], Report]:
    """Returns BERT's weights under the names and in the layouts of `models.encoders.bert`.

    Matrices of PyTorch are transposed, the dimensions of heads and of a head's width in the TF-Hub
    encoder are merged, and all layers are stacked.

    Args:
      arrays: arrays in one of the published formats; a prefix that all names share is ignored.
      vocab_size: see `models.encoders.bert.BertConfig`.
      width: see `BertConfig`.
      depth: see `BertConfig`.
      heads: see `BertConfig`.
      mlp_dim: see `BertConfig`.
      max_positions: see `BertConfig`.
      **others: keywords of the encoder that do not concern weights.

    Returns:
      (`params/encoder/...` -> float32 array, report).

    Raises:
      UserError: the arrays are not those of a BERT of this size.
    """
    del others
    names, prefix = _find_names(arrays)
    _check_heads(arrays, names, prefix, heads)
    norm = f"{prefix}{names.norm}{names.end}"
    found = [pair for pair in names.norms if norm + pair[0] in arrays]
    names = dataclasses.replace(names, norms=tuple(found) or names.norms)
    mapper = Mapper(arrays)
    rows = {"word": vocab_size, "position": max_positions, "token_type": 2}
    for (kind, count), source in zip(rows.items(), names.embeddings, strict=True):
        mapper.take(f"params/encoder/{kind}_embeddings", Taken(prefix + source), (count, width))
    for ours, theirs in zip(("scale", "bias"), names.norms[0], strict=True):
        mapper.take(f"params/encoder/embeddings_norm/{ours}", Taken(norm + theirs), (width,))
    for part in _layer_parts(names, width, mlp_dim):
        layers = [prefix + names.layer.format(layer) for layer in range(depth)]
        taken = Taken(tuple(layer + part.theirs for layer in layers), part.change(), part.how)
        mapper.take(f"params/encoder/layers/{part.ours}", taken, (depth, *part.shape))
    return mapper.result()


class _Part(NamedTuple):
    """One array of a layer, under our name and a publisher's."""

    ours: str
    theirs: str
    shape: tuple[int, ...]
    how: str = ""

    def change(self) -> Callable[[np.ndarray], np.ndarray] | None:
        changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "transposed": np.transpose,
            "heads joined": lambda array: array.reshape(self.shape),
        }
        return changes.get(self.how)


def _layer_parts(names: _Names, width: int, mlp_dim: int) -> Iterator[_Part]:
    for part, (inputs, outputs) in {
        **dict.fromkeys(("query", "key", "value", "attention_output"), (width, width)),
        "mlp_hidden": (width, mlp_dim),
        "mlp_output": (mlp_dim, width),
    }.items():
        theirs = names.parts[part] + names.end
        is_torch, has_heads = names.kernel == "weight", names.heads and not part.startswith("mlp")
        how = "transposed" if is_torch else "heads joined" if has_heads else ""
        yield _Part(f"{part}/kernel", theirs + names.kernel, (inputs, outputs), how)
        how = "heads joined" if has_heads and part != "attention_output" else ""
        yield _Part(f"{part}/bias", f"{theirs}bias", (outputs,), how)
    for part in ("attention_norm", "mlp_norm"):
        for ours, theirs in zip(("scale", "bias"), names.norms[0], strict=True):
            yield _Part(f"{part}/{ours}", names.parts[part] + names.end + theirs, (width,))


def describe_bert(source: WeightSource) -> Description:
    """Returns the size, the pooling and the tokenizer of a published BERT after checking them.

    Raises:
      UserError: it is not a BERT, computes something that our BERT does not, has no config, or has
        a vocabulary that keeps the case or differs in size from its embeddings.
    """
    names, prefix = _find_names(source.arrays)
    config = source.files.get("config.json") or source.files.get("bert_config.json") or {}
    _check_config(source.path, config)
    sizes = _sizes_of_hub(source.arrays, names, prefix) if not config else {}
    sizes |= {ours: config[theirs] for ours, theirs in _SIZES.items() if theirs in config}
    if missing := sorted(set(_SIZES) - set(sizes)):
        raise UserError(
            f"{source.path}: the size of BERT ({', '.join(missing)}) is not known. Put its "
            "config.json or bert_config.json beside the weights."
        )
    rows = len(source.arrays[prefix + names.embeddings[0]])
    vocabulary = _vocabulary(source)
    for count, place in ((sizes["vocab_size"], "config"), (len(vocabulary), "vocabulary")):
        if count != rows:
            raise UserError(
                f"{source.path}: the {place} has {count:,} word pieces but the embeddings have "
                f"{rows:,} rows; take the one that was published with the weights."
            )
    if sizes["width"] % sizes["heads"]:
        raise UserError(
            f"{source.path}: {sizes['heads']} heads do not divide the width of {sizes['width']}; "
            "take the config that was published with the weights."
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
    return Description({"name": "bert", **sizes}, head, preprocessing, {"vocab.txt": text.encode()})


def _find_names(arrays: Mapping[str, np.ndarray]) -> tuple[_Names, str]:
    """Returns the publisher's names and their common prefix."""
    for names in _ALL:
        words = names.embeddings[0]
        found = [
            name.removesuffix(words)
            for name in arrays
            if name == words or name.endswith((f"/{words}", f".{words}"))
        ]
        found = [
            prefix
            for prefix in found
            if any(name.startswith(prefix + _first(names.layer)) for name in arrays)
        ]
        if len(found) > 1:
            raise UserError(f"The source holds several BERTs: {sorted(found)}.")
        if found:
            return names, found[0]
    raise UserError(
        f"The source holds no BERT ({', '.join(sorted(arrays)[:4])}, ...): it has none of "
        f"{', '.join(names.embeddings[0] for names in _ALL[:3])}."
    )


def _first(name: str) -> str:
    return name.replace("{}", "0")


def _check_heads(arrays: Mapping[str, np.ndarray], names: _Names, prefix: str, heads: int) -> None:
    kernel = arrays.get(f"{prefix}{_first(names.layer)}{names.parts['query']}/kernel")
    if kernel is not None and kernel.ndim == 3 and kernel.shape[1] != heads:
        raise UserError(f"The source has {kernel.shape[1]} heads, but heads={heads} are asked for.")


def _sizes_of_hub(arrays: Mapping[str, np.ndarray], names: _Names, prefix: str) -> dict[str, int]:
    """Returns all sizes if the heads are a separate dimension, else none."""
    query = arrays.get(f"{prefix}{_first(names.layer)}{names.parts['query']}/kernel")
    hidden = arrays.get(f"{prefix}{_first(names.layer)}{names.parts['mlp_hidden']}/kernel")
    if query is None or query.ndim != 3 or hidden is None:
        return {}
    words, positions = (arrays.get(prefix + name) for name in names.embeddings[:2])
    layer = re.compile(re.escape(prefix + names.layer).replace(r"\{\}", r"(\d+)"))
    layers = {int(found[1]) for name in arrays if (found := layer.match(name))}
    return {
        "vocab_size": len(words),
        "width": query.shape[0],
        "depth": max(layers) + 1,
        "heads": query.shape[1],
        "mlp_dim": hidden.shape[1],
        **({} if positions is None else {"max_positions": len(positions)}),
    }


def _check_config(path: str, config: Mapping[str, Any]) -> None:
    """Raises an error for settings that change the outputs and that our BERT does not support."""
    wanted = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "type_vocab_size": 2,
        "is_decoder": False,
        "embedding_size": config.get("hidden_size"),
    }
    for key, value in wanted.items():
        if config.get(key, value) != value:
            raise UserError(
                f"{path}: the config has {key}={config[key]!r}, but the encoder 'bert' "
                f"computes {value!r} only."
            )


def _vocabulary(source: WeightSource) -> list[str]:
    if "vocab.txt" in source.files:
        return source.files["vocab.txt"].rstrip("\n").split("\n")
    model = source.files.get("tokenizer.json", {}).get("model", {})
    if model.get("type", "WordPiece") == "WordPiece" and model.get("vocab"):
        return sorted(model["vocab"], key=model["vocab"].get)
    raise UserError(f"{source.path}: vocab.txt is missing beside the weights.")


def _check_uncased(source: WeightSource, vocabulary: list[str]) -> None:
    settings = source.files.get("tokenizer_config.json", {})
    normalizer = source.files.get("tokenizer.json", {}).get("normalizer") or {}
    cased = [token for token in vocabulary if token != token.lower() and token[:1] != "["]
    lower_case = [
        settings.get("do_lower_case", True),
        normalizer.get("lowercase", True),
        *(bool(array) for name, array in source.arrays.items() if name.endswith("do_lower_case")),
        # In vocabularies of 30,000 pieces, some letters have no lower case.
        len(cased) <= len(vocabulary) // 100,
    ]
    accents = (settings.get("strip_accents"), normalizer.get("strip_accents"))
    chinese = (settings.get("tokenize_chinese_chars"), normalizer.get("handle_chinese_chars"))
    if not all(lower_case) or False in accents or False in chinese:
        raise UserError(
            f"{source.path}: its tokenizer is not that of the uncased BERT, which lower-cases, "
            "strips accents and splits Chinese characters."
        )


def _pooling(source: WeightSource) -> tuple[str | None, bool]:
    """Returns the head of a sentence encoder or None, and whether it divides by norms."""
    kinds = [module["type"].rpartition(".")[2] for module in source.files.get("modules.json", ())]
    if others := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise UserError(f"{source.path} has modules after BERT that are not known: {others}.")
    settings = source.files.get("1_Pooling/config.json")
    if settings is None:
        # The pooling is part of a sentence encoder.
        is_part = "sentence_bert_config.json" in source.files and "modules.json" not in source.files
        if "Pooling" in kinds or is_part:
            raise UserError(
                f"{source.path} is only partly downloaded: it is a sentence encoder, but "
                "1_Pooling/config.json is missing."
            )
        return None, False
    start = "pooling_mode_"
    modes = [
        key.removeprefix(start) for key, on in settings.items() if key.startswith(start) and on
    ]
    modes = modes or [settings.get("pooling_mode")]
    known = {"mean_tokens": "mean", "mean": "mean", "cls_token": "first", "cls": "first"}
    if len(modes) > 1 or modes[0] not in known:
        raise UserError(f"{source.path} pools by {modes}; known: {sorted(known)}, one of them.")
    return known[modes[0]], "Normalize" in kinds
