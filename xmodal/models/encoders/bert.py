"""BERT of any size, as released in google-research/bert.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding" (2019).
"""

import dataclasses
from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax

from xmodal.core.config import setting
from xmodal.models.attention import choose_attention
from xmodal.models.basics import DTYPES, Devices, Mode
from xmodal.models.encoders.encoder import Encoder, check_length, read_ids
from xmodal.models.features import Features
from xmodal.models.initializers import BERT, LAYER_INITS
from xmodal.models.transformer_layers import StackConfig, layer_norm

EPSILON = 1e-12


@dataclasses.dataclass(frozen=True)
class BertConfig(StackConfig):
    """Settings of BERT; the defaults are BERT-Base, uncased. See `StackConfig`.

    Attributes:
      vocab_size: entries of the WordPiece vocabulary.
      lower_depth: number of lower layers with separately named parameters, so that they can be
        frozen; see `Bert`.
      max_positions: longest text.
      types: rows of the table of token types, of which only the first is used; 0 for no table, as
        in BLIP.
      layer_init: initial values of the layers, a key of `LAYER_INITS`. Those of "bert" suit a width
        of 768 and, unlike the others, do not depend on it; in narrow layers they are so small that
        the scores of a cross-encoder "cross_attention" hardly depend on the pair.
    """

    vocab_size: int = setting(30522, at_least=1)
    lower_depth: int = setting(0, at_least=0)
    max_positions: int = setting(512, at_least=1)
    types: int = setting(2, at_least=0)
    layer_init: str = setting("bert", one_of=LAYER_INITS)


class Bert(Encoder):
    """Token ids to the sequence output of the last layer.

    The parameters of the layers are stacked along a first axis, as `layers`, so that one layer is
    compiled at any depth. The first `lower_depth` of them can be separate, as `lower_layers`, to
    stay frozen while the others train. If there are any, neither they nor the embeddings use
    dropout, so that stored features equal computed ones. The frozen features are the output of
    `lower_layers`, or of the last layer if none are separate. All tokens have type 0.
    """

    feature_column = "text_features"

    config: BertConfig

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token per id.

        `text_features` [N, T, W], the tokens that `frozen_features` returned, may replace
        `text_ids`.
        """
        return self.run(inputs, mode, lower_only=False)

    def frozen_features(self, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the output of the lower part [N, T, W] as the column `text_features`."""
        return {self.feature_column: self.run(inputs, Mode.EVALUATE, lower_only=True).tokens}

    @property
    def may_pool_features(self) -> bool:
        """Whether no layers follow the frozen features."""
        return not self.config.lower_depth

    def makes_frozen_features(self, name: str) -> bool:
        """Returns whether frozen features depend on the parameters called `name`."""
        return not self.config.lower_depth or name != "layers"

    @nn.compact
    def run(self, inputs: Mapping[str, jax.Array], mode: Mode, lower_only: bool) -> Features:
        """Returns the tokens of the last layer, or only of the lower part."""
        config, dtype = self.config, DTYPES[self.config.dtype]
        dropout = config.dropout if mode.drops else 0.0
        lower_dropout = 0.0 if config.lower_depth else dropout

        stack = partial(
            config.run_layers, norm_first=False, activation="gelu", epsilon=EPSILON, causal=False,
            init=config.layer_init,
        )  # fmt: skip
        has_features = self.feature_column in inputs
        if has_features:
            mask = inputs["text_mask"] > 0
            x = inputs[self.feature_column].astype(dtype)
        else:
            ids, mask = read_ids(inputs)
            x = self._embed(ids, lower_dropout)
            if config.lower_depth:
                x = stack(x, mask, lower_dropout, depth=config.lower_depth, name="lower_layers")
        # If no layers are separate, all of them belong to the lower part.
        has_more = not lower_only if config.lower_depth else not has_features
        if has_more:
            depth = config.depth - config.lower_depth
            x = stack(x, mask, dropout, depth=depth)
        return Features(x, mask)

    def _embed(self, ids: jax.Array, dropout: float) -> jax.Array:
        config, length = self.config, ids.shape[1]
        check_length(ids, config.max_positions)

        def table(name: str, rows: int) -> jax.Array:
            return self.param(name, BERT, (rows, config.width))

        words = table("word_embeddings", config.vocab_size)
        positions = table("position_embeddings", config.max_positions)
        x = words[ids] + positions[:length]
        if config.types:
            x = x + table("token_type_embeddings", config.types)[0]
        x = layer_norm(EPSILON, DTYPES[config.dtype], "embeddings_norm")(x)
        return nn.Dropout(dropout, deterministic=False)(x)


def make_bert(config: BertConfig, devices: Devices) -> Bert:
    """Returns BERT for texts."""
    return Bert(choose_attention("config.model.text.encoder", config, devices.platform))
