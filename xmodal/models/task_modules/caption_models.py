"""Captions as targets: a language model over a word table, and a decoder of an image's regions.

Language model: PureTextRnn and PinModelA of Mao et al., "Training and Evaluating Multimodal Word
Embeddings with Large-scale Web Annotated Images" (2016): a GRU predicts every next word of a
caption; in PinModelA its first state is a function of the image feature. Input and output words are
the same table. Here the softmax is over the whole vocabulary (theirs is sampled), and the first
state is a linear map behind a hyperbolic tangent, which keeps it in the range of a GRU.

Decoder: the caption generation of VSRN (Li et al. 2019, KunpengLi1994/VSRN), after Venugopalan et
al., "Sequence to Sequence - Video to Text" (2015), with additive attention.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.features import Features
from xmodal.models.initializers import LINEAR, uniform
from xmodal.models.recurrent import Direction, Recurrent
from xmodal.models.task_modules.task_module import TaskInputs
from xmodal.similarity.token_sets import masked_softmax


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
    def __call__(self, given: TaskInputs, mode: Mode) -> dict[str, jax.Array]:
        """Ids of captions, and vectors [B, D] of images -> sums over the words of each caption.

        `left` is the image if there are two views; `columns` has `text_ids` and `text_mask`
        [B, T], with a special token at both ends; `reads` is one table of words [V, E].

        Returns:
          `nll` float32 [B], the negative log-likelihood of each caption's words but the first, and
          `targets` float32 [B], their number.
        """
        config, (left, right, columns, reads) = self.config, given
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


_XAVIER_NORMAL = nn.initializers.xavier_normal()


@dataclasses.dataclass(frozen=True)
class CaptionDecoderConfig:
    """Settings of a caption decoder.

    Attributes:
      vocab_size: number of words; 0 in a config uses the vocabulary's size.
      width: width of the states and of the regions that the decoder attends to.
      word_width: width of the decoder's own word vectors.
      dropout: dropout rate of the regions after their linear layer, and of the decoder's inputs.
      max_length: largest number of ids of a caption, including special tokens; the last id of a
        longer caption becomes `end_id`.
      end_id: id of the word that ends a caption.
      padding_target: whether a shorter caption has one more target after its end, the id 0, as in
        the released code.
    """

    vocab_size: int = setting(at_least=1)
    width: int = setting(512, at_least=1)
    word_width: int = setting(300, at_least=1)
    dropout: float = setting(0.2, at_least=0, below=1)
    max_length: int = setting(60, at_least=2)
    end_id: int = setting(2, at_least=0)
    padding_target: bool = True


class CaptionDecoder(nn.Module):
    """A GRU reads the regions; another, starting from its last state, generates the caption.

    Parameters: `regions` and `encoder`; `words` [V, E], `step` and `output`.
    """

    config: CaptionDecoderConfig

    @nn.compact
    def __call__(self, given: TaskInputs, mode: Mode) -> dict[str, jax.Array]:
        """Regions of images and ids of captions -> sums over the targets of each caption.

        The left view has the extras `regions` [B, R, D] and `region_mask`; the columns are
        `text_ids` and `text_mask` [B, T].

        Returns:
          `nll` float32 [B], the negative log-likelihood of each caption's targets, and `targets`
          float32 [B], their number.
        """
        config, left, columns = self.config, given.left, given.columns
        inputs, targets, counted = shift_captions(columns["text_ids"], columns["text_mask"], config)
        regions, mask = left.extras["regions"], left.extras["region_mask"]
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        regions = nn.Dense(config.width, kernel_init=_XAVIER_NORMAL, name="regions")(regions)
        encoder = Recurrent("gru", config.width, 1, False, 0.0, jnp.float32, name="encoder")
        encoded = encoder(drop(regions), Features(regions, mask).lengths(), False)
        outputs, state = Features(encoded.tokens, mask).real_tokens(), encoded.state

        init = nn.initializers.normal(1.0)
        words = self.param("words", init, (config.vocab_size, config.word_width))
        bound = (2 * config.width) ** -0.5  # torch's, for one layer on outputs and state
        keys = nn.Dense(
            config.width, kernel_init=uniform(bound), bias_init=uniform(bound), name="keys"
        )(outputs)
        steps = nn.scan(
            DecoderStep,
            variable_broadcast="params",
            split_rngs={"params": False, "dropout": True},
            in_axes=(1, nn.broadcast),
            out_axes=1,
        )(config, not mode.drops, name="step")
        _, states = steps(state, words[inputs], (outputs, keys, mask))
        output = nn.Dense(config.vocab_size, kernel_init=_XAVIER_NORMAL, name="output")
        logits = output(states)
        chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        nll = jax.nn.logsumexp(logits, axis=-1) - chosen
        counts = jnp.sum(counted, axis=1, dtype=jnp.float32)
        return {"nll": jnp.sum(jnp.where(counted, nll, 0), axis=1), "targets": counts}


class DecoderStep(nn.Module):
    """One word: attention by the state before it, then the GRU.

    Parameters: `query`, `scores` and `cell`.
    """

    config: CaptionDecoderConfig
    deterministic: bool

    @nn.compact
    def __call__(
        self, state: jax.Array, word: jax.Array, memory: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        """State [B, W], word [B, E], outputs and keys [B, R, W], mask [B, R] -> two new states."""
        (outputs, keys, mask), width = memory, self.config.width
        init = uniform((2 * width) ** -0.5)
        query = nn.Dense(width, use_bias=False, kernel_init=init, name="query")(state)
        score = nn.Dense(1, use_bias=False, kernel_init=LINEAR["torch"], name="scores")
        weights = masked_softmax(score(jnp.tanh(keys + query[:, None]))[..., 0], mask)
        context = jnp.einsum("br,brw->bw", weights, outputs)
        joined = jnp.concatenate([word, context], axis=-1)
        joined = nn.Dropout(self.config.dropout, deterministic=self.deterministic)(joined)
        # A text of one token, which starts from the state.
        lengths = jnp.ones(len(joined), jnp.int32)
        state = Direction("gru", width, name="cell")(joined[:, None], lengths, state).state
        return state, state


def shift_captions(
    ids: jax.Array, mask: jax.Array, config: CaptionDecoderConfig
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the words that a decoder reads, those it should write, and which of them count.

    Args:
      ids: int [B, T], with a special token at both ends of a caption.
      mask: [B, T], 1 on real ids, which come first.
      config: see `CaptionDecoderConfig`.

    Returns:
      int [B, S], int [B, S] and bool [B, S], where S is the smaller of T and max_length - 1.
    """
    most = config.max_length
    lengths = jnp.sum(mask > 0, axis=1, keepdims=True)
    ids = jnp.pad(jnp.where(mask > 0, ids, 0)[:, :most], ((0, 0), (0, 1)))
    places = jnp.arange(ids.shape[1])
    ids = jnp.where((lengths >= most) & (places == most - 1), config.end_id, ids)
    steps = min(ids.shape[1], most) - 1
    # The first of n ids is not a target; the target of id n is the padding after it.
    last = jnp.where(config.padding_target & (lengths < most), lengths + 1, lengths)
    counted = places[1 : steps + 1] < jnp.minimum(last, most)
    return ids[:, :steps], ids[:, 1 : steps + 1], counted
