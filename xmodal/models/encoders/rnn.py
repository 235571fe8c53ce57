"""A recurrent network over learned word vectors."""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.encoders.word_embedding import WordTableConfig, embed_words
from xmodal.models.features import Features
from xmodal.models.mode import Mode
from xmodal.models.recurrent import BIASES, CELLS, Recurrent, RecurrentOutputs, mean_directions


@dataclasses.dataclass(frozen=True)
class RnnConfig(WordTableConfig):
    """Settings of a recurrent encoder; see `WordTableConfig` for the common ones.

    Attributes:
      cell: "gru" or "lstm".
      width: width of the state in one direction.
      layers: number of layers.
      bidirectional: read texts in both directions.
      directions: in a bidirectional encoder, "joined" makes tokens of 2 * width, "mean" takes the
        mean of both (VSE-infinity, SGRAF).
      embedding_width: width of the word vectors.
      dropout: also the rate between two layers.
      biases: biases of a gate, see `recurrent.Recurrent`: 2 as in torch, 1 as in TensorFlow.
    """

    cell: str = setting("gru", one_of=CELLS)
    width: int = setting(1024, at_least=1)
    layers: int = setting(1, at_least=1)
    bidirectional: bool = False
    directions: str = setting("joined", one_of=("joined", "mean"))
    embedding_width: int = setting(300, at_least=1)
    biases: int = setting(2, one_of=BIASES)

    def __post_init__(self) -> None:
        if self.directions == "mean" and not self.bidirectional:
            raise UserError(
                "config.model.text.encoder.directions is 'mean', but bidirectional is False; set "
                "it to True, or directions='joined'."
            )


class Rnn(Encoder):
    """Maps token ids through a table of word vectors and recurrent layers.

    Parameters: `table` [V, E] and `recurrent`; see `recurrent.Recurrent`.
    """

    config: RnnConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> the outputs as tokens [N, T, D].

        Extras: `words` [N, T, E], the word vectors; `state` [N, D], the final states; `last`
        [N, D], the outputs at the last word.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        ids, mask = read_ids(inputs)
        words, x = embed_words(self, config, config.embedding_width, ids, mode)
        recurrent = Recurrent(
            config.cell, config.width, config.layers, config.bidirectional, config.dropout, dtype,
            config.biases, name="recurrent",
        )  # fmt: skip
        outputs = recurrent(x, Features(x, mask).lengths(), mode.drops)
        if config.directions == "mean":
            outputs = RecurrentOutputs(*map(mean_directions, outputs))
        extras = {"words": words, "state": outputs.state, "last": outputs.last}
        return Features(outputs.tokens, mask, extras)
