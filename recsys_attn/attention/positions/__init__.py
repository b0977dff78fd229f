"""Positions: how an encoder knows the order of its events, in the events or in the score."""

from recsys_attn.attention.positions.axial import AxialPositions
from recsys_attn.attention.positions.base import (
    POSITIONS,
    CountedPositions,
    EventPositions,
    Positions,
)
from recsys_attn.attention.positions.by_distance import (
    AlibiPositions,
    BucketPositions,
    RotaryPositions,
)
from recsys_attn.attention.positions.by_time import TimeBucketPositions, TimeIntervalPositions
from recsys_attn.attention.positions.coordinates import CoordinatePositions
from recsys_attn.attention.positions.in_score import NoPositions, ScorePositions, encodes_order
from recsys_attn.attention.positions.learned import LearnedPositions
from recsys_attn.attention.positions.sinusoidal import SinusoidalPositions
from recsys_attn.attention.positions.transformer_xl import TransformerXlPositions, share_biases

get = POSITIONS.get

__all__ = [
    "POSITIONS",
    "AlibiPositions",
    "AxialPositions",
    "BucketPositions",
    "CoordinatePositions",
    "CountedPositions",
    "EventPositions",
    "LearnedPositions",
    "NoPositions",
    "Positions",
    "RotaryPositions",
    "ScorePositions",
    "SinusoidalPositions",
    "TimeBucketPositions",
    "TimeIntervalPositions",
    "TransformerXlPositions",
    "encodes_order",
    "get",
    "share_biases",
]
