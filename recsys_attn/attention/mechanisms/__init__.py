"""Mechanisms: from query, key, value and masks of each head to its output and weights."""

from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.disentangled import Disentangled
from recsys_attn.attention.mechanisms.head_groups import HeadGroups
from recsys_attn.attention.mechanisms.linear import Linear, LinearState
from recsys_attn.attention.mechanisms.lookup import Lookup
from recsys_attn.attention.mechanisms.pair_values import PairValues, TimeIntervalValues
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.serialization import deserialize, serialize

get = MECHANISMS.get

__all__ = [
    "MECHANISMS",
    "Compressed",
    "Dense",
    "Disentangled",
    "HeadGroups",
    "Linear",
    "LinearState",
    "Lookup",
    "Mechanism",
    "PairValues",
    "Routed",
    "TimeIntervalValues",
    "deserialize",
    "get",
    "serialize",
]
