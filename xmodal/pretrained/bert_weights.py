"""BERT as published by Google (TensorFlow checkpoint, TF-Hub) and in Hugging Face's format."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.models.encoders.bert import EPSILON
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import ATTENTION, Arrays, Table, nest, transformer_sizes
from xmodal.pretrained.published_weights import Published, PublishedTower
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
HUGGING_FACE_LAYER = {
    **{part: f"attention.self.{part}" for part in ATTENTION},
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "mlp_hidden": "intermediate.dense",
    "mlp_output": "output.dense",
    "mlp_norm": "output.LayerNorm",
}
"""A layer of `transformers.BertModel`."""
_EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings")
EMBEDDINGS = {name: f"{name}.weight" for name in _EMBEDDINGS} | {"embeddings_norm": "LayerNorm"}
"""`BertEmbeddings` of `transformers`."""
HUGGING_FACE: Table = {
    **nest("", "embeddings.", EMBEDDINGS),
    **nest("layers/", "encoder.layer.{}.", HUGGING_FACE_LAYER),
}
"""`transformers.BertModel`."""
_GOOGLE = {
    **{name: f"bert/embeddings/{name}" for name in _EMBEDDINGS},
    "embeddings_norm": "bert/embeddings/LayerNorm",
    **{
        f"layers/{part}": f"bert/encoder/layer_{{}}/{name.replace('.', '/')}"
        for part, name in HUGGING_FACE_LAYER.items()
    },
}
_HUB_LAYER = {
    **{part: f"self_attention/{part}" for part in ATTENTION},
    "attention_norm": "self_attention_layer_norm",
    "mlp_hidden": "intermediate",
    "mlp_output": "output",
    "mlp_norm": "output_layer_norm",
}
_HUB = {
    "word_embeddings": "word_embeddings/embeddings",
    "position_embeddings": "position_embedding/embeddings",
    "token_type_embeddings": "type_embeddings/embeddings",
    "embeddings_norm": "embeddings/layer_norm",
    **nest("layers/", "transformer/layer_{}/", _HUB_LAYER),
    "layers/attention_output": "transformer/layer_{}/self_attention/attention_output",
}
# The first version on TF-Hub.
_FIRST_HUB = {
    "word_embeddings": "word_embeddings/embeddings",
    "position_embeddings": "embedding_postprocessor/position_embeddings",
    "token_type_embeddings": "embedding_postprocessor/type_embeddings",
    "embeddings_norm": "embedding_postprocessor/layer_norm",
    **nest("layers/", "encoder/layer_{}/", _HUB_LAYER),
    "layers/attention_output": "encoder/layer_{}/self_attention_output",
}
_TABLES = (HUGGING_FACE, _GOOGLE, _HUB, _FIRST_HUB)


def bert_sizes(arrays: Arrays, table: Table, heads: int | None = None) -> dict[str, Any]:
    """Returns the keywords of a BERT.

    Args:
      arrays: arrays of the source.
      table: the names of its arrays in the source.
      heads: attention heads; None for the usual number of its width.
    """
    sizes = transformer_sizes(arrays, table, "layers/")
    return {
        "vocab_size": len(arrays[str(table["word_embeddings"])]),
        **sizes,
        "heads": heads or sizes["heads"],
        "max_positions": len(arrays[str(table["position_embeddings"])]),
    }


def describe_bert(source: WeightSource) -> Published:
    """Returns a published BERT with its pooling and its tokenizer."""
    table = _find_table(source.arrays)
    config = source.files.get("config.json") or source.files.get("bert_config.json") or {}
    check_config(config)
    query = f"{table['layers/query']}/kernel".format(0)
    is_split = query in source.arrays and source.arrays[query].ndim == 3
    heads = source.arrays[query].shape[1] if is_split else config.get("num_attention_heads")
    if heads is None:
        raise UserError(
            "its number of heads is not known: put its config.json or bert_config.json beside it."
        )
    sizes = bert_sizes(source.arrays, table, heads)
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
    pool = _pooling(source)
    longest = source.files.get("sentence_bert_config.json", {}).get("max_seq_length")
    preprocessing = {
        "tokenizer": "wordpiece",
        "lower_case": True,
        "max_length": min(longest or sizes["max_positions"], sizes["max_positions"]),
    }
    text = source.files.get("vocab.txt") or "".join(f"{token}\n" for token in vocabulary)
    head = None if pool is None else {"name": pool}
    files = {"vocab.txt": text.encode()}
    described = Description({"name": "bert", **sizes}, head, preprocessing, files)
    tower = PublishedTower(described, nest("encoder/", "", table))
    return Published(text=tower, unused=_UNUSED)


def check_config(config: Mapping[str, Any]) -> None:
    """Checks that our BERT computes what a `config.json` of `transformers` asks for."""
    for key, value in _COMPUTED.items():
        if config.get(key, value) != value:
            raise UserError(f"its config has {key}={config[key]!r}; supported: {value!r}.")


def _find_table(arrays: Arrays) -> Table:
    """Returns the publisher's table, with the common prefix of the names."""
    for table in _TABLES:
        anchor, words = (str(table[key]) for key in ("layers/mlp_norm", "word_embeddings"))
        norms = [anchor.format(0) + end for end in (".weight", ".gamma", "/gamma")]
        starts = [
            name.removesuffix(norm) for norm in norms for name in arrays if name.endswith(norm)
        ]
        found = [start for start in starts if start + words in arrays]
        if found:
            return nest("", min(found, key=len), table)
    wanted = ", ".join(dict.fromkeys(str(table["word_embeddings"]) for table in _TABLES))
    shown = ", ".join(sorted(arrays)[:4])
    raise UserError(f"it is not a BERT: it has {shown}, ..., but none of {wanted}.")


def _vocabulary(source: WeightSource) -> list[str]:
    if "vocab.txt" in source.files:
        return source.files["vocab.txt"].rstrip("\n").split("\n")
    model = source.files.get("tokenizer.json", {}).get("model", {})
    if model.get("type", "WordPiece") == "WordPiece" and model.get("vocab"):
        return sorted(model["vocab"], key=model["vocab"].get)
    raise UserError("vocab.txt is missing beside the weights.")


def _pooling(source: WeightSource) -> str | None:
    """Returns the name of the head of a sentence encoder; None for another BERT."""
    kinds = [module["type"].rpartition(".")[2] for module in source.files.get("modules.json", ())]
    if others := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise UserError(f"it has modules after BERT that are not known: {others}.")
    settings = source.files.get("1_Pooling/config.json")
    if settings is None:
        if "Pooling" in kinds:
            raise UserError("it is a sentence encoder, but 1_Pooling/config.json is missing.")
        return None
    start = "pooling_mode_"
    modes = [
        key.removeprefix(start) for key, on in settings.items() if key.startswith(start) and on
    ]
    modes = modes or [settings.get("pooling_mode")]
    known = {"mean_tokens": "mean", "mean": "mean", "cls_token": "cls", "cls": "cls"}
    if len(modes) > 1 or modes[0] not in known:
        raise UserError(f"it pools by {modes}; known: {sorted(known)}, one of them.")
    return known[modes[0]]
