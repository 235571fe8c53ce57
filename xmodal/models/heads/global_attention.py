"""Unit tokens, and their weighted mean, by attention with the plain mean as the query.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), and the
authors' code, Paranioar/SGRAF.
"""

import dataclasses
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.features import Features
from xmodal.models.heads.pooling import mean_tokens
from xmodal.models.heads.unit_tokens import normalize_tokens
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
from xmodal.models.normalize import l2_normalize
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class GlobalAttentionConfig:
    """Settings of the head "global_attention".

    Attributes:
      width: D, width of a linear layer before; None for no such layer, as the authors' texts have.
      batch_norm: normalize the two inputs of the attention over the batch, as the authors' images
        do. The tokens' statistics are one for each position, over images and channels, so all items
        need the same number of tokens.
      dropout: dropout rate of the attention's inputs.
      init: initializer of the attention's linear layers, a key of `LINEAR`.
      unit_query: whether the mean of the tokens is divided by its L2 norm, as CVSE's texts have it.
    """

    width: int | None = setting(None, at_least=1)
    batch_norm: bool = False
    dropout: float = setting(0.4, at_least=0, below=1)
    init: str = setting("xavier", one_of=LINEAR)
    unit_query: bool = False


class GlobalAttention(nn.Module):
    """A linear layer, unit tokens, and attention with their mean as the query.

    Parameters: `linear` of the tokens; `local` and `global`, linear layers of the attention, with
    `local_norm` and `global_norm`; `weight`.
    """

    config: GlobalAttentionConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> unit vector [N, D].

        Extras: `tokens` [N, T, D], float32 of unit length and zero in the padding, and their
        `mask`, bool [N, T].

        Raises:
          UserError: `batch_norm` is set, and the number of tokens varies.
        """
        config, mask = self.config, features.full_mask()
        if config.batch_norm and features.mask is not None:
            raise UserError(
                "The head 'global_attention' with batch_norm=True normalizes each position of a "
                "fixed number of tokens, but here it varies; set batch_norm=False."
            )
        tokens = normalize_tokens(features, config.width)
        mean = mean_tokens(Features(tokens, features.mask))
        if config.unit_query:
            mean = l2_normalize(mean)
        dense = partial(nn.Dense, kernel_init=LINEAR[config.init])
        local = dense(tokens.shape[-1], name="local")(tokens)
        whole = dense(tokens.shape[-1], name="global")(mean)
        if config.batch_norm:
            # The positions are the channels.
            local = torch_batch_norm(name="local_norm")(local.swapaxes(1, 2), mode).swapaxes(1, 2)
            whole = torch_batch_norm(name="global_norm")(whole, mode)
        local, whole = (
            nn.Dropout(config.dropout, deterministic=not mode.drops)(jnp.tanh(each))
            for each in (local, whole)
        )
        # A bias would change nothing.
        logits = dense(1, use_bias=False, name="weight")(local * whole[:, None])[..., 0]
        logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
        weights = jax.nn.softmax(logits)
        vector = l2_normalize(jnp.einsum("nt,ntd->nd", weights, tokens))
        return Embedding(vector, extras={"tokens": tokens, "mask": mask})
