"""Layers around an attention mechanism, and the mechanisms: parts that compose."""

from recsys_attn.attention.core.watching import HeadsCall, watch_heads
from recsys_attn.attention.core.weights import SparseWeights, SummaryWeights, dense_weights
from recsys_attn.attention.disagreement import Disagreement
from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.from_keras import from_keras
from recsys_attn.attention.layers.head_pruning import prune_heads
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.layers.pooling import AttentionPooling
from recsys_attn.attention.layers.prepend_tokens import PrependTokens
from recsys_attn.attention.layers.recurrence import Recurrence
from recsys_attn.attention.layers.segment_attention import SegmentAttention
from recsys_attn.attention.layers.two_stream import TwoStreamEncoder
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.disentangled import Disentangled
from recsys_attn.attention.mechanisms.head_groups import HeadGroups
from recsys_attn.attention.mechanisms.linear import Linear
from recsys_attn.attention.mechanisms.lookup import Lookup
from recsys_attn.attention.mechanisms.routed import Routed

__all__ = [
    "Attention",
    "AttentionPooling",
    "Compressed",
    "Dense",
    "Disagreement",
    "Disentangled",
    "HeadGroups",
    "HeadsCall",
    "Linear",
    "Lookup",
    "MultiHeadAttention",
    "PrependTokens",
    "Recurrence",
    "Routed",
    "SegmentAttention",
    "SparseWeights",
    "SummaryWeights",
    "TwoStreamEncoder",
    "dense_weights",
    "from_keras",
    "prune_heads",
    "watch_heads",
]
