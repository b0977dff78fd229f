"""Layers around an attention mechanism, and the mechanisms: parts that compose."""

from recsys_attn.attention.attention import Attention
from recsys_attn.attention.disagreement import Disagreement
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.linear import Linear
from recsys_attn.attention.mechanisms.retrieved import Retrieved
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.multi_head import MultiHeadAttention
from recsys_attn.attention.pooling import AttentionPooling
from recsys_attn.attention.pruning import prune_heads
from recsys_attn.attention.recurrence import Recurrence
from recsys_attn.attention.tokens import PrependTokens

__all__ = [
    "Attention",
    "AttentionPooling",
    "Compressed",
    "Dense",
    "Disagreement",
    "Linear",
    "MultiHeadAttention",
    "PrependTokens",
    "Recurrence",
    "Retrieved",
    "Routed",
    "prune_heads",
]
