"""Positions that become a part of the score, and the lack of positions."""

from __future__ import annotations

import dataclasses
from typing import Any

from recsys_attn.attention import presets
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.attention.mechanisms.head_groups import HeadGroups
from recsys_attn.attention.positions.base import POSITIONS, Positions
from recsys_attn.attention.scores.base import Score
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config


def encodes_order(mechanism: Any) -> bool:
    """Returns whether the order matters to a mechanism, by positions in its score or by a decay.

    A causal or a local pattern does not count: inside what it shows, the order does not matter.

    Args:
        mechanism: An instance, a name or a config.

    Example:

    >>> from recsys_attn.attention.positions import encodes_order
    >>> [encodes_order(name) for name in ("transformer", "alibi", "reformer", "performer")]
    [False, True, False, False]
    """
    mechanism = presets.get(mechanism)
    if isinstance(mechanism, HeadGroups):
        return any(encodes_order(part) for part in mechanism.mechanisms)
    score = getattr(mechanism, "score", None)
    if isinstance(score, Score):
        return score.encodes_order or getattr(mechanism, "pair_values", None) is not None
    return getattr(mechanism, "encodes_order", mechanism.positional)


@POSITIONS.register("none")
@dataclasses.dataclass(frozen=True)
class NoPositions(Positions):
    """No positions: the encoder cannot tell an order of the events from another.

    Right for sets, and for an ablation.

    Raises:
        ValueError: The score of the mechanism has positions.

    Example:

    >>> from recsys_attn.attention.positions import NoPositions
    >>> type(NoPositions().in_mechanism("transformer").score).__name__
    'Dot'
    """

    def in_mechanism(self, mechanism: Any) -> Mechanism:
        mechanism = presets.get(mechanism)
        if encodes_order(mechanism):
            raise ValueError(
                f"The positions 'none' contradict {_described(mechanism)}, which knows the order "
                "by positions in its score or by a decay. Leave the positions out, or choose a "
                "mechanism without any, such as 'transformer'"
            )
        return mechanism


class ScorePositions(Positions):
    """Positions that change the score of a mechanism.

    A subclass implements `in_score`.

    Example:

    >>> import dataclasses
    >>> from recsys_attn.attention.positions import ScorePositions
    >>> @dataclasses.dataclass(frozen=True)
    ... class TwoSlopes(ScorePositions):
    ...     def in_score(self, score):
    ...         return {"class_name": "sum", "config": {"scores": [score, "alibi", "alibi"]}}
    >>> len(TwoSlopes().in_mechanism("transformer").score.scores)
    3
    """

    def in_score(self, score: Config) -> Config:
        """Returns the config of the score with positions.

        Args:
            score: The config of a score without.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `in_score`")

    def in_mechanism(self, mechanism: Any) -> Any:
        mechanism = presets.get(mechanism)
        if isinstance(mechanism, HeadGroups):
            return mechanism.with_each(self.in_mechanism)
        score, name = getattr(mechanism, "score", None), type(self).__name__
        if not isinstance(score, Score):
            raise ValueError(
                f"{name} is a part of the score, and {_described(mechanism)} has none. Use "
                "positions that change the events, such as 'learned' or 'sinusoidal', or another "
                "mechanism"
            )
        if score.encodes_order:
            raise ValueError(
                f"{_described(mechanism)} has positions in its score, so {name} would count them "
                "twice. Leave one of the two out"
            )
        config = {**mechanism.get_config(), "score": self.in_score(serialize(score) or {})}
        return type(mechanism)(**config)  # `from_config` would wrap the error of a wrong one


def _described(mechanism: Any) -> str:
    score = getattr(mechanism, "score", None)
    parts = getattr(score, "scores", [] if score is None else [score])
    names = " + ".join(type(part).__name__ for part in parts)
    return f"{type(mechanism).__name__}({names})"


def sum_of(*scores: Any) -> Config:
    """Returns the config of a sum of scores."""
    return {"class_name": "sum", "config": {"scores": list(scores)}}
