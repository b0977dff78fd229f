"""Which pairs? Functions of positions, which combine by `&`, `|` and `~`."""

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.window import Causal
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family("a pattern", {"causal": Causal}, Pattern).get

__all__ = ["Causal", "Pattern", "deserialize", "get", "serialize"]
