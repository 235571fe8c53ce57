"""A language model over the word table of a text encoder, with or without the image.

PureTextRnn and PinModelA of Mao et al., "Training and Evaluating Multimodal Word Embeddings with
Large-scale Web Annotated Images" (2016): a GRU predicts every next word of a caption; in PinModelA
its first state is a function of the image feature. Input and output words are the same table. Here
the softmax is over the whole vocabulary (theirs is sampled), and the first state is a linear map
behind a hyperbolic tangent, which keeps it in the range of a GRU.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.mode import Mode
from xmodal.models.recurrent import Direction
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class LanguageModelConfig:
    """Settings of a language model.

    Attributes:
      width: width of the GRU's state.
      dropout: dropout rate of the input words and of the states.
    """

    width: int = setting(512, at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)


class LanguageModel(nn.Module):
    """A GRU over the words of a table that the task reads.

    Parameters: `cell`, `output` (states to the width of a word), `bias` [V], and `start` (image to
    first state) if the task has two views.
    """

    config: LanguageModelConfig

    @nn.compact
    def __call__(
        self,
        left: Embedding,
        right: Embedding | None,
        columns: Mapping[str, jax.Array],
        reads: Mapping[str, jax.Array],
        mode: Mode,
    ) -> dict[str, jax.Array]:
        """Ids of captions, and vectors [B, D] of images -> sums over the words of each caption.

        `left` is the image if there are two views; `columns` has `text_ids` and `text_mask`
        [B, T], with a marker at both ends; `reads` is one table of words [V, E].

        Returns:
          `nll` float32 [B], the negative log-likelihood of each caption's words but the first, and
          `targets` float32 [B], their number.
        """
        config = self.config
        if len(reads) != 1 or not {"text_ids", "text_mask"} <= set(columns):
            raise UserError(
                "The task module 'language_model' predicts the words of a table: set, in its task, "
                "inputs=('text_ids', 'text_mask') and reads=('text/encoder/table',)."
            )
        (table,) = reads.values()
        ids, mask = columns["text_ids"], columns["text_mask"] > 0
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        state = None
        if right is not None:
            state = jnp.tanh(nn.Dense(config.width, name="start")(left.vector))
        # Padding may have any id; it does not matter, because it is not counted.
        ids = jnp.where(mask, ids, 0)
        read = drop(table[ids[:, :-1]])
        lengths = jnp.full(read.shape[0], read.shape[1])
        # The authors give no number of biases; TensorFlow's cells have one.
        cell = Direction("gru", config.width, biases=1, name="cell")
        states = cell(read, lengths, state).tokens
        words = nn.Dense(table.shape[1], use_bias=False, name="output")(drop(states))
        bias = self.param("bias", nn.initializers.zeros, (table.shape[0],))
        logits = words @ table.T + bias
        chosen = jnp.take_along_axis(logits, ids[:, 1:, None], axis=-1)[..., 0]
        counted = mask[:, 1:]
        nll = jnp.where(counted, jax.nn.logsumexp(logits, axis=-1) - chosen, 0)
        return {"nll": jnp.sum(nll, axis=1), "targets": jnp.sum(counted, axis=1, dtype=jnp.float32)}
