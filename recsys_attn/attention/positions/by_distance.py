"""Positions in the score by the distance of two events: ALiBi, T5, rotary."""

from __future__ import annotations

import dataclasses
from typing import Any

from recsys_attn.attention.positions.base import POSITIONS
from recsys_attn.attention.positions.in_score import ScorePositions, sum_of
from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.wrapper import Wrapper
from recsys_attn.tensors import Config


@POSITIONS.register("alibi")
@dataclasses.dataclass(frozen=True)
class AlibiPositions(ScorePositions):
    """ALiBi: `score - m |i - j|`, with a slope m of each head. See `scores.Alibi`.

    Source: Press et al., ICLR 2022, arXiv 2108.12409.

    Example:

    >>> from recsys_attn.attention.positions import AlibiPositions
    >>> type(AlibiPositions().in_mechanism("transformer").score).__name__
    'Sum'
    """

    def in_score(self, score: Config) -> Config:
        return sum_of(score, "alibi")


@POSITIONS.register("t5")
@dataclasses.dataclass(frozen=True)
class BucketPositions(ScorePositions):
    """T5's `score + table[bucket(i - j)]`, with a table of each head. See `RelativeBuckets`.

    The preset `"t5"` is the paper's whole score, whose dot product is not scaled.

    Source: Raffel et al., JMLR 2020, arXiv 1910.10683.

    Args:
        num_buckets: Number of buckets for both directions together, even. Defaults to 32.
        max_distance: Start of the last bucket. Defaults to 128; raise it for longer histories.

    Example:

    >>> from recsys_attn.attention.positions import BucketPositions
    >>> type(BucketPositions(num_buckets=16).in_mechanism("transformer").score).__name__
    'Sum'
    """

    num_buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        SCORES.get(self._bias)

    @property
    def _bias(self) -> Config:
        return {"class_name": "relative_buckets", "config": dataclasses.asdict(self)}

    def in_score(self, score: Config) -> Config:
        return sum_of(score, self._bias)


@POSITIONS.register("rotary")
@dataclasses.dataclass(frozen=True)
class RotaryPositions(ScorePositions):
    """Queries and keys turned by their positions before the score. See `scores.Rotary`.

    Source: Su et al., 2021, arXiv 2104.09864.

    Args:
        base: Base of the angular velocities. Defaults to 10,000; raise it for very long histories.
        interleaved: Whether the channels 2m and 2m + 1 turn together, or m and m + H/2.

    Example:

    >>> from recsys_attn.attention.positions import RotaryPositions
    >>> type(RotaryPositions(base=1e5).in_mechanism("transformer").score).__name__
    'Rotary'
    """

    base: float = 10000.0
    interleaved: bool = False

    def __post_init__(self) -> None:
        SCORES.get(self._around("scaled_dot"))

    def _around(self, score: Any) -> Config:
        return {"class_name": "rotary", "config": {"score": score, **dataclasses.asdict(self)}}

    def in_score(self, score: Config) -> Config:
        if not isinstance(SCORES.get(score), Wrapper):
            return self._around(score)
        # Normalised before they are turned, as in Qwen3.
        inside: Config = score["config"]
        return {**score, "config": {**inside, "score": self.in_score(inside["score"])}}
