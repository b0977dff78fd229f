"""Weightings: from logits and `allowed` to weights (B, N, T, S)."""

from recsys_attn.attention.weightings.attention_sink import AttentionSink
from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.attention.weightings.entmax import Entmax
from recsys_attn.attention.weightings.gaussian import Gaussian
from recsys_attn.attention.weightings.identity import Identity
from recsys_attn.attention.weightings.sigmoid import Sigmoid
from recsys_attn.attention.weightings.silu import Silu
from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.attention.weightings.talking_heads import TalkingHeads
from recsys_attn.attention.weightings.top_k import TopK
from recsys_attn.serialization import deserialize, serialize

get = WEIGHTINGS.get

__all__ = [
    "WEIGHTINGS",
    "AttentionSink",
    "Entmax",
    "Gaussian",
    "Identity",
    "Sigmoid",
    "Silu",
    "Softmax",
    "TalkingHeads",
    "TopK",
    "Weighting",
    "deserialize",
    "get",
    "serialize",
]
