"""Image encoders from sources that store the same arrays under other names."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from xmodal.core.tree_paths import leaves_by_path
from xmodal.models import make_tower
from xmodal.pretrained.conversion_report import Mapper, Report, Taken

Flat = dict[str, np.ndarray]
"""`params/encoder/b/kernel` and `batch_stats/encoder/b/mean` -> array."""

# Counters, which are not weights.
COUNTERS = re.compile(r"(.*[/.])?(global_step|num_batches_tracked|save_counter)\b")

# Our, TensorFlow's, torch's and TF-slim's names of the arrays of a convolution and of the batch
# normalization after it. The roles of the latter start with `norm_`.
TENSORFLOW = {
    "kernel": "kernel",
    "bias": "bias",
    "norm_scale": "gamma",
    "norm_bias": "beta",
    "norm_mean": "moving_mean",
    "norm_var": "moving_variance",
}
TORCH = {
    "kernel": "weight",
    "norm_scale": "weight",
    "norm_bias": "bias",
    "norm_mean": "running_mean",
    "norm_var": "running_var",
}
SLIM = {
    "kernel": "weights",
    "norm_scale": "BatchNorm/gamma",
    "norm_bias": "BatchNorm/beta",
    "norm_mean": "BatchNorm/moving_mean",
    "norm_var": "BatchNorm/moving_variance",
}


Rule = Callable[[str, str], Taken]
"""From one of our layers (`stage1_unit2/reduce`) and a role to the array of the source."""


def convert(
    arrays: Mapping[str, np.ndarray], encoder: Mapping[str, Any], rule: Rule
) -> tuple[Flat, Report]:
    """Fills every array of an image encoder.

    Args:
      arrays: the source.
      encoder: `name` and keywords, as in `config.model.image.encoder`.
      rule: our layer and role -> the array of the source.

    Returns:
      The arrays in the source, in the shapes of the encoder, and the report.

    Raises:
      UserError: a keyword is unknown, or an array has another shape than the encoder's.
    """
    mapper = Mapper(arrays)
    for name, shape in encoder_shapes(encoder).items():
        mapper.take(name, rule(*split_name(name)), shape)
    return mapper.result(ignored=[name for name in arrays if COUNTERS.match(name)])


def encoder_shapes(encoder: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every array of an image encoder, by name in a converted folder."""
    tower = make_tower("the tower", {"encoder": encoder, "head": {"name": "mean"}})
    inputs = {"image": np.zeros((1, 96, 96, 3), np.uint8)}
    params, state = jax.eval_shape(tower.init, jax.random.key(0), inputs)
    return flat_shapes({"params": params, **state})


def flat_shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every array of a tree by its path."""
    return {path: leaf.shape for path, leaf in leaves_by_path(tree).items()}


def split_name(name: str) -> tuple[str, str]:
    """Returns the layer and the array's role.

    `params/encoder/a/stem_norm/scale` -> ("a/stem", "norm_scale").
    """
    layer, _, leaf = name.split("/", 2)[2].rpartition("/")
    if leaf.startswith("depthwise"):  # A depthwise kernel is an array of its block.
        return f"{layer}/depthwise", "bias" if leaf.endswith("_bias") else "kernel"
    if layer.endswith("_norm"):
        return layer.removesuffix("_norm"), f"norm_{leaf}"
    return layer, leaf


def find_prefix(arrays: Mapping[str, np.ndarray], name: str) -> str:
    """Returns the prefix of `name` in the source, as `module/`; "" if the source has no such name.

    Exported modules put a scope around the names used in training.
    """
    found = [key.removesuffix(name) for key in arrays if f"/{key}".endswith(f"/{name}")]
    return min(found, key=len, default="")


def number_layers(names: Iterable[str], kind: str) -> list[str]:
    """Returns the layers `scope/kind`, `scope/kind_1`, ... of the names, in this order.

    Frameworks number unnamed layers in the order of their creation, starting from the number that
    the process had reached.
    """
    pattern = re.compile(rf"(?P<layer>(.*/)?({kind})(_(?P<number>\d+))?)/[^/]+")
    matches = [match for match in map(pattern.fullmatch, names) if match]
    numbers = {match["layer"]: int(match["number"] or 0) for match in matches}
    return sorted(numbers, key=numbers.__getitem__)
