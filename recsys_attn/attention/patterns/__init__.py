"""Patterns: allowed pairs as functions of positions; combined by `&`, `|` and `~`."""

from recsys_attn.attention.patterns.base import PATTERNS, And, Not, Or, Pattern
from recsys_attn.attention.patterns.blocks import Block, EdgeBlocks
from recsys_attn.attention.patterns.per_head import PerHead
from recsys_attn.attention.patterns.random_blocks import RandomBlocks, random_plan
from recsys_attn.attention.patterns.strided import Fixed, Strided
from recsys_attn.attention.patterns.tokens import Global, Prefix, Prepended
from recsys_attn.attention.patterns.window import Causal, Dilated, Full, Local
from recsys_attn.serialization import deserialize, serialize

get = PATTERNS.get

__all__ = [
    "PATTERNS",
    "And",
    "Block",
    "Causal",
    "Dilated",
    "EdgeBlocks",
    "Fixed",
    "Full",
    "Global",
    "Local",
    "Not",
    "Or",
    "Pattern",
    "PerHead",
    "Prefix",
    "Prepended",
    "RandomBlocks",
    "Strided",
    "deserialize",
    "get",
    "random_plan",
    "serialize",
]
