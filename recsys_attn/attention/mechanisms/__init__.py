"""At what cost? Layers from per-head query, key, value and masks to per-head output and weights."""

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family("a mechanism", {"dense": Dense}).get

__all__ = ["Dense", "deserialize", "get", "serialize"]
