"""The head of a side whose features serve a pair scorer alone."""

import flax.linen as nn
import jax.numpy as jnp

from xmodal.models.features import Features
from xmodal.models.mode import Mode
from xmodal.similarity.embedding import Embedding


class NoVector(nn.Module):
    """Has no parameters; the embedding has no numbers, and all similarities are equal."""

    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vectors [N, 0]."""
        del mode
        return Embedding(jnp.zeros((len(features.tokens), 0), jnp.float32))
