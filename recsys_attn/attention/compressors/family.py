"""Every compressor by its name."""

from recsys_attn.attention.compressors.base import Compressor
from recsys_attn.attention.compressors.chain import Chain
from recsys_attn.attention.compressors.convolution import Convolution
from recsys_attn.attention.compressors.low_rank import LowRank
from recsys_attn.attention.compressors.pool import Pool
from recsys_attn.attention.compressors.segments import Segments
from recsys_attn.serialization import Family

get = Family(
    "a compressor",
    {
        "chain": Chain,
        "convolution": Convolution,
        "low_rank": LowRank,
        "pool": Pool,
        "segments": Segments,
    },
    Compressor,
).get
