"""BLIP's image-grounded text encoder: the text tower's BERT, with cross-attention to the image.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), and salesforce/BLIP, models/blip_retrieval.py.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.bert import EPSILON, Bert
from xmodal.models.features import Features
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode
from xmodal.models.pair_scorers.fusion_encoder import FusionEncoder
from xmodal.models.pair_scorers.fusion_layer import FusionSizes
from xmodal.models.pair_scorers.pair_scorer import SCORES, PairScorer
from xmodal.models.transformer_layers import layer_norm

# Names of the parts of BERT's layers: ours in a block of `FusionLayer` -> the encoder's.
_PARTS = {
    "self_attention/query": "query",
    "self_attention/key": "key",
    "self_attention/value": "value",
    "self_attention/output": "attention_output",
    "self_attention/residual/norm": "attention_norm",
    "mlp/hidden": "mlp_hidden",
    "mlp/output": "mlp_output",
    "mlp/residual/norm": "mlp_norm",
}


@dataclasses.dataclass(frozen=True)
class CrossAttentionConfig:
    """Settings of the pair scorer "cross_attention"; sizes are those of the text encoder.

    Attributes:
      score: see `MatchingHeadConfig`.
    """

    score: str = setting("log_odds", one_of=SCORES)


class GroundedText(FusionEncoder):
    """Reads ids of texts, whose first token, `[CLS]`, is replaced by the learned `[ENC]`.

    Parameters of its own: `marker` [W], which is the word embedding of `[ENC]`, the blocks
    `cross_attention` of the layers, and `output`. All others are those of the text encoder.
    """

    vocab_size: int
    positions: int
    types: int

    def setup(self) -> None:
        """Makes the embeddings and the layers."""
        super().setup()
        width = self.sizes.width
        self.word_embeddings = self.param("word_embeddings", BERT, (self.vocab_size, width))
        self.position_embeddings = self.param("position_embeddings", BERT, (self.positions, width))
        if self.types:
            self.token_type_embeddings = self.param(
                "token_type_embeddings", BERT, (self.types, width)
            )
        self.marker = self.param("marker", BERT, (width,))
        self.embeddings_norm = layer_norm(EPSILON, DTYPES[self.sizes.dtype], "embeddings_norm")
        self.drop = nn.Dropout(self.sizes.dropout)

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Ids as tokens int [N, T, 1] -> tokens after the first self-attention, and `mask`."""
        words = self.word_embeddings[features.tokens[..., 0]].at[:, 0].set(self.marker)
        x = words + self.position_embeddings[: words.shape[1]]
        if self.types:
            x = x + self.token_type_embeddings[0]
        x = self.drop(self.embeddings_norm(x), deterministic=not mode.drops)
        return self.read_text(x, features.full_mask(), mode)


def make_cross_attention(config: CrossAttentionConfig, text_encoder: nn.Module) -> PairScorer:
    """Returns BLIP's pair scorer.

    Raises:
      UserError: the text encoder is not a BERT.
    """
    if not isinstance(text_encoder, Bert):
        raise UserError(
            "config.model.pair_scorer 'cross_attention' shares the layers of a BERT, and "
            f"config.model.text.encoder is a {type(text_encoder).__name__}; use 'bert' there, or "
            "the pair scorer 'matching_head'."
        )
    bert = text_encoder.config
    sizes = FusionSizes(
        bert.width, bert.depth, bert.heads, bert.mlp_dim, bert.dropout, bert.dtype, bert.layer_init
    )
    module = GroundedText(sizes, bert.vocab_size, bert.max_positions, bert.types)
    return PairScorer(
        "cross_attention", config.score, module, reads_ids=True, shared=_take_from_bert
    )


def _take_from_bert(bert: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a text encoder by the paths of `GroundedText`."""
    stacks = [bert[name] for name in ("lower_layers", "layers") if name in bert]
    found = {name: array for name, array in bert.items() if not name.endswith("layers")}
    norm = found.pop("embeddings_norm")
    found |= {f"embeddings_norm/{leaf}": array for leaf, array in norm.items()}
    number = 0
    for stack in stacks:
        for row in range(len(stack["query"]["bias"])):
            for ours, theirs in _PARTS.items():
                for leaf, array in stack[theirs].items():
                    found[f"layers_{number}/{ours}/{leaf}"] = array[row]
            number += 1
    return found
