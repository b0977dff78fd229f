"""Scores: similarities of queries and keys, (B, T, N, H), (B, S, N, H) -> (B, N, T, S)."""

from recsys_attn.attention.scores.additive import Additive
from recsys_attn.attention.scores.alibi import Alibi
from recsys_attn.attention.scores.base import SCORES, Score, Sum
from recsys_attn.attention.scores.cosine import Cosine
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.attention.scores.factorised_synthesizer import (
    FactorisedDenseSynthesizer,
    FactorisedRandomSynthesizer,
)
from recsys_attn.attention.scores.general import General
from recsys_attn.attention.scores.key_only import KeyOnly
from recsys_attn.attention.scores.location import Location
from recsys_attn.attention.scores.mixture import Mixture
from recsys_attn.attention.scores.mlp import Mlp
from recsys_attn.attention.scores.qk_norm import QkNorm
from recsys_attn.attention.scores.relative_buckets import RelativeBuckets
from recsys_attn.attention.scores.relative_dot import RelativeDot
from recsys_attn.attention.scores.rotary import Rotary
from recsys_attn.attention.scores.shared_dot import SharedDot
from recsys_attn.attention.scores.soft_cap import SoftCap
from recsys_attn.attention.scores.synthesizer import DenseSynthesizer, RandomSynthesizer
from recsys_attn.attention.scores.temperature import Temperature
from recsys_attn.attention.scores.time_buckets import TimeBuckets
from recsys_attn.attention.scores.time_intervals import TimeIntervals
from recsys_attn.serialization import deserialize, serialize

get = SCORES.get

__all__ = [
    "SCORES",
    "Additive",
    "Alibi",
    "Cosine",
    "DenseSynthesizer",
    "Dot",
    "FactorisedDenseSynthesizer",
    "FactorisedRandomSynthesizer",
    "General",
    "KeyOnly",
    "Location",
    "Mixture",
    "Mlp",
    "QkNorm",
    "RandomSynthesizer",
    "RelativeBuckets",
    "RelativeDot",
    "Rotary",
    "Score",
    "SharedDot",
    "SoftCap",
    "Sum",
    "Temperature",
    "TimeBuckets",
    "TimeIntervals",
    "deserialize",
    "get",
    "serialize",
]
