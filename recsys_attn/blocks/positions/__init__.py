"""Positions of the events of an encoder."""

from recsys_attn.blocks.positions.axial import AxialPositions
from recsys_attn.blocks.positions.base import POSITIONS, CountedPositions, EventPositions, Positions
from recsys_attn.blocks.positions.coordinates import CoordinatePositions
from recsys_attn.blocks.positions.learned import LearnedPositions
from recsys_attn.blocks.positions.sinusoidal import SinusoidalPositions

get = POSITIONS.get

__all__ = [
    "POSITIONS",
    "AxialPositions",
    "CoordinatePositions",
    "CountedPositions",
    "EventPositions",
    "LearnedPositions",
    "Positions",
    "SinusoidalPositions",
    "get",
]
