"""Compressors: from S keys and values to C summaries."""

from recsys_attn.attention.compressors.base import COMPRESSORS as _COMPRESSORS
from recsys_attn.attention.compressors.base import CompressedKeys, Compressor
from recsys_attn.attention.compressors.chain import Chain
from recsys_attn.attention.compressors.convolution import Convolution
from recsys_attn.attention.compressors.low_rank import LowRank
from recsys_attn.attention.compressors.pool import Pool
from recsys_attn.attention.compressors.segments import Segments
from recsys_attn.serialization import deserialize, serialize

get = _COMPRESSORS.get

__all__ = [
    "Chain",
    "CompressedKeys",
    "Compressor",
    "Convolution",
    "LowRank",
    "Pool",
    "Segments",
    "deserialize",
    "get",
    "serialize",
]
