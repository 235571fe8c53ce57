"""SCAN as kuanghuei/SCAN released it: `model_best.pth.tar` of each formulation and pooling."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import FEATURES, SENTENCES, gru_encoder
from xmodal.pretrained.torch_models import Arrays, Published

_QUERIES = {"t2i": "text", "i2t": "image"}
_POOLS = {"LogSumExp": "lse", "Mean": "mean", "Max": "max", "Sum": "sum"}


def describe_scan(arrays: Arrays, options: Mapping[str, Any]) -> Published:
    """Returns the model of a checkpoint.

    Args:
      arrays: its arrays.
      options: its `opt`; the similarity has no arrays.

    Raises:
      UserError: the source is not such a checkpoint, or not of a kind that is known here.
    """
    similarity = {
        "name": "scan",
        "queries": _read(options, "cross_attn", _QUERIES),
        "pool": _read(options, "agg_func", _POOLS),
        "pool_scale": options.get("lambda_lse", 6.0),
        "attention_scale": _read(options, "lambda_softmax"),
        "attention_norm": _read(options, "raw_feature_norm"),
    }
    start = torch_models.find_prefix(arrays, "0.fc.weight")
    if f"{start}0.fc.weight_g" in arrays:
        raise UserError("its precomp_enc_type is weight_norm, which is not supported.")
    width, inputs = torch_models.array_shape(arrays, f"{start}0.fc.weight")
    words, text_layers = describe_words(arrays, f"{start}1.", options)
    head = {"name": "unit_tokens", "width": width}
    encoder = {"name": "precomputed", "features": (36, inputs)}
    return Published(
        sides={
            "image": Description(encoder, head, FEATURES),
            "text": Description(words, {"name": "unit_tokens"}, SENTENCES),
        },
        similarity=similarity,
        layers={
            "image": {"head/linear": torch_models.linear(f"{start}0.fc")},
            "text": text_layers,
        },
    )


def describe_words(
    arrays: Arrays, start: str, options: Mapping[str, Any], **keywords: Any
) -> tuple[dict[str, Any], dict[str, torch_models.LayerRule]]:
    """Returns the result of `gru_encoder`, with the mean of both directions as each token.

    Args:
      arrays: see `gru_encoder`.
      start: see `gru_encoder`.
      options: options of the checkpoint.
      **keywords: see `gru_encoder`.

    Raises:
      UserError: the model does not normalize its tokens, or see `gru_encoder`.
    """
    for name in ("no_imgnorm", "no_txtnorm"):
        if options.get(name):
            raise UserError(f"its tokens are not normalized ({name}), which is not supported.")
    words, layers = gru_encoder(arrays, start, **keywords)
    return words | {"directions": "mean" if words["bidirectional"] else "joined"}, layers


def _read(options: Mapping[str, Any], name: str, known: Mapping[str, str] | None = None) -> Any:
    """Returns an option, by our name if it is a name."""
    if name not in options:
        raise UserError(
            f"it has no {name!r} among its options, 'opt', which alone say how pairs are scored; "
            "convert the authors' whole file."
        )
    value = options[name]
    if known is not None and value not in known:
        raise UserError(f"its {name} is {value!r}; known are {', '.join(known)}.")
    return value if known is None else known[value]
