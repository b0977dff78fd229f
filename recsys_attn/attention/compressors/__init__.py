"""Few summaries for many keys? Layers whose `compress` turns S events into C summaries."""

from recsys_attn.attention.compressors.base import CompressedKeys, Compressor
from recsys_attn.attention.compressors.convolution import Convolution
from recsys_attn.attention.compressors.low_rank import LowRank
from recsys_attn.attention.compressors.pool import Pool
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family(
    "a compressor",
    {"convolution": Convolution, "low_rank": LowRank, "pool": Pool},
    Compressor,
).get

__all__ = [
    "CompressedKeys",
    "Compressor",
    "Convolution",
    "LowRank",
    "Pool",
    "deserialize",
    "get",
    "serialize",
]
