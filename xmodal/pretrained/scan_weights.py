"""SCAN as kuanghuei/SCAN released it: `model_best.pth.tar` of each formulation and pooling."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules
from xmodal.pretrained.image_text import gru_encoder, regions, sentences
from xmodal.pretrained.layer_rules import LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

_QUERIES = {"t2i": "text", "i2t": "image"}
_POOLS = {"LogSumExp": "lse", "Mean": "mean", "Max": "max", "Sum": "sum"}
_NEEDED = ("cross_attn", "agg_func", "lambda_softmax", "raw_feature_norm")


def describe_scan(source: WeightSource) -> Published:
    """Returns the model of a checkpoint, whose options describe the similarity.

    Raises:
      UserError: it is not such a checkpoint, or not of a kind that is known here.
    """
    arrays, options = source.arrays, source.options
    if missing := [name for name in _NEEDED if name not in options]:
        raise UserError(
            f"it has no {', '.join(missing)} among its options, 'opt', which alone say how pairs "
            "are scored; convert the authors' whole file."
        )
    queries, pool = _QUERIES.get(options["cross_attn"]), _POOLS.get(options["agg_func"])
    start = layer_rules.find_prefix(arrays, "0.fc.weight")
    if not queries or not pool or f"{start}0.fc.weight_g" in arrays:
        raise UserError(
            f"its cross_attn is {options['cross_attn']!r}, its agg_func {options['agg_func']!r}; "
            f"known are {', '.join(_QUERIES)} and {', '.join(_POOLS)}, without weight_norm."
        )
    similarity = {
        "name": "scan",
        "queries": queries,
        "pool": pool,
        "pool_scale": options.get("lambda_lse", 6.0),
        "attention_scale": options["lambda_softmax"],
        "attention_norm": options["raw_feature_norm"],
    }
    width, inputs = layer_rules.array_shape(arrays, f"{start}0.fc.weight")
    words, text_layers = describe_words(source, f"{start}1.")
    return Published(
        towers={
            "image": regions(inputs, {"name": "unit_tokens", "width": width}),
            "text": sentences(source, words, {"name": "unit_tokens"}),
        },
        similarity=similarity,
        layers={
            "image": {"head/linear": layer_rules.linear(f"{start}0.fc")},
            "text": text_layers,
        },
    )


def describe_words(
    source: WeightSource, start: str, **keywords: Any
) -> tuple[Mapping[str, Any], dict[str, LayerRule]]:
    """Returns the result of `gru_encoder`, with the mean of both directions as each token.

    Args:
      source: the checkpoint.
      start: see `gru_encoder`.
      **keywords: see `gru_encoder`.

    Raises:
      UserError: the model does not normalize its tokens, or see `gru_encoder`.
    """
    for name in ("no_imgnorm", "no_txtnorm"):
        if source.options.get(name):
            raise UserError(f"its tokens are not normalized ({name}), which is not supported.")
    words, layers = gru_encoder(source.arrays, start, **keywords)
    return words | {"directions": "mean" if words["bidirectional"] else "joined"}, layers
