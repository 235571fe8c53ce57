"""The columns that text encoders read."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp


def read_ids(inputs: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns `text_ids` int [N, T] and `text_mask` as bool [N, T].

    Raises:
      ValueError: their shapes or dtypes are wrong.
    """
    ids, mask = inputs["text_ids"], inputs["text_mask"]
    if ids.ndim != 2 or ids.shape != mask.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(
            "a text encoder takes int text_ids [N, T] and text_mask [N, T], got "
            f"{ids.dtype} {list(ids.shape)} and {mask.dtype} {list(mask.shape)}"
        )
    return ids, mask > 0
