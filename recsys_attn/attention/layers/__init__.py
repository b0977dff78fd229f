"""Layers around a mechanism: projections into heads, pooling, memory of one event at a time."""

from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.head_pruning import prune_heads
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.layers.pooling import AttentionPooling
from recsys_attn.attention.layers.prepend_tokens import PrependTokens
from recsys_attn.attention.layers.recurrence import Recurrence
from recsys_attn.attention.layers.segment_attention import SegmentAttention
from recsys_attn.attention.layers.two_stream import TwoStreamEncoder

__all__ = [
    "Attention",
    "AttentionPooling",
    "MultiHeadAttention",
    "PrependTokens",
    "Recurrence",
    "SegmentAttention",
    "TwoStreamEncoder",
    "prune_heads",
]
