"""Compute dtypes by name."""

from collections.abc import Mapping

import jax.numpy as jnp
from jax.typing import DTypeLike

DTYPES: Mapping[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
"""Compute dtypes; parameters are always float32."""
