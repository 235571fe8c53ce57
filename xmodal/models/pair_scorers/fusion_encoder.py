"""A stack of layers of texts with cross-attention to an image, and a linear layer on token 0."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.models.features import Features
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode
from xmodal.models.pair_scorers.fusion_layer import FusionLayer, FusionSizes


class FusionEncoder(nn.Module):
    """Parameters: `layers_0`, `layers_1`, ..., `output`. Subclasses add `text`."""

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the layers."""
        self.layers = [FusionLayer(self.sizes) for _ in range(self.sizes.depth)]
        self.output = nn.Dense(2, kernel_init=BERT, dtype=jnp.float32)

    def image(self, features: Features, mode: Mode) -> dict[str, Any]:
        """Tokens [N, R, any width] -> keys and values of every layer, and `mask` [N, R]."""
        del mode
        tokens = features.real_tokens()
        return {
            "mask": features.full_mask(),
            "memory": [layer.keys_values(tokens) for layer in self.layers],
        }

    def read_text(self, x: jax.Array, mask: jax.Array, mode: Mode) -> dict[str, jax.Array]:
        """Embedded tokens [N, T, W] -> those after the first self-attention, and `mask`."""
        return {"mask": mask, "tokens": self.layers[0].read_text(x, mask, mode)}

    def __call__(
        self, images: dict[str, Any], texts: dict[str, jax.Array], mode: Mode
    ) -> jax.Array:
        """Prepared images [I, ...] and texts [I, J, ...] -> float32 logits [I, J, 2]."""
        x, mask = texts["tokens"], texts["mask"]
        flat = (-1, *x.shape[2:])
        for number, (layer, memory) in enumerate(zip(self.layers, images["memory"], strict=True)):
            # Nothing reads the other tokens of the last layer.
            queries = 1 if number == len(self.layers) - 1 else None
            if number:
                read = layer.read_text(x.reshape(flat), mask.reshape(flat[:2]), mode, queries)
                x = read.reshape(*x.shape[:2], -1, flat[-1])
            x = layer.read_image(x[:, :, :queries], memory, images["mask"], mode)
        return self.output(x[:, :, 0].astype(jnp.float32))

    def pair_bytes(self, image_tokens: int, text_tokens: int) -> int:
        """Returns the bytes of a layer's float32 values of one pair."""
        sizes = self.sizes
        per_token = 6 * sizes.width + sizes.mlp_dim + sizes.heads * (text_tokens + image_tokens)
        return 4 * text_tokens * per_token
