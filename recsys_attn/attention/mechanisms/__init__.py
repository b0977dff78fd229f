"""At what cost? Layers from per-head query, key, value and masks to per-head output and weights."""

from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.linear import Linear, LinearState
from recsys_attn.attention.mechanisms.retrieved import Retrieved
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

FAMILY = _Family(
    "a mechanism",
    {
        "compressed": Compressed,
        "dense": Dense,
        "linear": Linear,
        "retrieved": Retrieved,
        "routed": Routed,
    },
    call=("query", "key", "value"),
    hint="A score, a pattern, a weighting or a router is an argument of one, as in Dense(score)",
)
get = FAMILY.get

__all__ = [
    "FAMILY",
    "Compressed",
    "Dense",
    "Linear",
    "LinearState",
    "Retrieved",
    "Routed",
    "deserialize",
    "get",
    "serialize",
]
