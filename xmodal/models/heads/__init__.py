"""Heads by name: `Features` -> `Embedding`."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from xmodal.models.basics import Row, make_part
from xmodal.models.heads import (
    attention_pooling,
    global_attention,
    gpo,
    graph_reasoning,
    pie,
    pooling,
    transformer,
)

HEADS: Mapping[str, Row] = {
    "attention": Row(attention_pooling.AttentionConfig, attention_pooling.Attention),
    "attention_pool": Row(attention_pooling.AttentionPoolConfig, attention_pooling.AttentionPool),
    "cls": Row(pooling.NoConfig, lambda config: pooling.Cls()),
    "consensus": Row(global_attention.ConsensusConfig, global_attention.Consensus),
    "flatten": Row(pooling.NoConfig, lambda config: pooling.Flatten()),
    "gaussian": Row(pie.GaussianConfig, pie.Gaussian),
    "global_attention": Row(
        global_attention.GlobalAttentionConfig, global_attention.GlobalAttention
    ),
    "gpo": Row(gpo.GpoConfig, gpo.Gpo),
    "graph": Row(graph_reasoning.GraphConfig, graph_reasoning.Graph),
    "lasttoken": Row(pooling.LastTokenConfig, pooling.LastToken),
    "max": Row(pooling.MaxConfig, pooling.Max),
    "mean": Row(pooling.NoConfig, lambda config: pooling.Mean()),
    "multihead_attention_pool": Row(
        attention_pooling.MultiheadAttentionPoolConfig, attention_pooling.MultiheadAttentionPool
    ),
    "none": Row(pooling.NoConfig, lambda config: pooling.NoVector()),
    "pie": Row(pie.PieConfig, pie.Pie),
    "sum": Row(pooling.NoConfig, lambda config: pooling.Sum()),
    "transformer": Row(transformer.TransformerConfig, transformer.Transformer),
    "unit_tokens": Row(global_attention.UnitTokensConfig, global_attention.UnitTokens),
}
"""A head is called with `Features` and a `Mode`, and returns an `Embedding`."""


def make_head(where: str, config: Mapping[str, Any]) -> nn.Module:
    """Returns the head that a section with `name` and keywords describes."""
    return make_part(where, config, HEADS)
