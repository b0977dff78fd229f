"""Positions by the time between events, for the slot `positions` of an encoder."""

from __future__ import annotations

import dataclasses
from typing import Any

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.positions.base import POSITIONS
from recsys_attn.attention.positions.in_score import ScorePositions, sum_of
from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.tensors import Config


class TimePositions(ScorePositions):
    """Positions in the score that read times."""

    uses_times = True


@POSITIONS.register("time_buckets")
@dataclasses.dataclass(frozen=True)
class TimeBucketPositions(TimePositions):
    """HSTU's `score + table[bucket(log |t_i - t_j|)]`, a table of each head. See `TimeBuckets`.

    With `place_distances` it is the paper's `score + table[bucket] + places[i - j]`.

    In a model, they stand beside learned positions, and the history needs the ages of its events.

    Source: Zhai et al., ICML 2024, arXiv 2402.17152.

    Args:
        num_buckets: Number of buckets; the last one holds all longer times.
        step: Width of a bucket in the logarithm of the seconds. With the defaults, 20 buckets of
            1.0, the last one starts at 5 years.
        place_distances: Number of distances between the places of events, in both directions, with
            a learned number of their own; longer ones share numbers. Give the `max_length` of the
            history. Defaults to none.

    Example:

    >>> from recsys_attn.attention.positions import TimeBucketPositions
    >>> type(TimeBucketPositions().in_mechanism("transformer").score.scores[1]).__name__
    'TimeBuckets'
    """

    num_buckets: int = 20
    step: float = 1.0
    place_distances: int | None = None

    def __post_init__(self) -> None:
        SCORES.get(self._bias)
        if self.place_distances is not None:
            require_positive("place_distances", self.place_distances)

    @property
    def _bias(self) -> Config:
        config = {"num_buckets": self.num_buckets, "step": self.step}
        return {"class_name": "time_buckets", "config": config}

    def in_score(self, score: Config) -> Config:
        scores = [score, self._bias]
        if self.place_distances is not None:
            # Half of a direction's buckets hold one distance each.
            config = {
                "num_buckets": 4 * self.place_distances,
                "max_distance": 2 * self.place_distances,
            }
            scores.append({"class_name": "relative_buckets", "config": config})
        return sum_of(*scores)


@POSITIONS.register("time_intervals")
@dataclasses.dataclass(frozen=True)
class TimeIntervalPositions(TimePositions):
    """TiSASRec's `score + q . K[r]` of the interval r. See `TimeIntervals`.

    It is scaled where the score is a scaled dot product. With `values` the output has
    `sum_s weight[s] R[r]` too, as in the paper. See `TimeIntervalValues`.

    They need the mechanism `Dense`. In a model, they stand beside learned positions, and the
    history needs the ages of its events.

    Source: Li et al., WSDM 2020.

    Args:
        max_interval: Largest interval, in units of the user's shortest one; longer ones count as
            it. The paper takes 256 to 2048.
        values: Whether intervals have vectors beside the values too, as in the paper.

    Example:

    >>> from recsys_attn.attention.positions import TimeIntervalPositions
    >>> type(TimeIntervalPositions(256).in_mechanism("transformer").score.scores[1]).__name__
    'TimeIntervals'
    """

    max_interval: int = 256
    values: bool = False

    def __post_init__(self) -> None:
        require_bool("values", self.values)
        SCORES.get(self._term(False))

    def in_mechanism(self, mechanism: Any) -> Any:
        mechanism = super().in_mechanism(mechanism)
        # The mechanisms of `HeadGroups` have them already; no other kind takes such a score.
        if not self.values or not isinstance(mechanism, Dense):
            return mechanism
        values = {"class_name": "time_intervals", "config": {"max_interval": self.max_interval}}
        return Dense(**{**mechanism.get_config(), "pair_values": values})

    def _term(self, scale: bool) -> Config:
        config = {"max_interval": self.max_interval, "scale": scale}
        return {"class_name": "time_intervals", "config": config}

    def in_score(self, score: Config) -> Config:
        content = SCORES.get(score)
        scale = isinstance(content, Dot) and content.scale
        return sum_of(score, self._term(scale))
