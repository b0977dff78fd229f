"""Positions that are a part of the score, for the slot `positions` of an encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recsys_attn.attention import presets
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.attention.mechanisms.head_groups import HeadGroups
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.attention.scores.wrapper import Wrapper
from recsys_attn.blocks.positions.base import POSITIONS, Positions
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config


def encodes_order(mechanism: Any) -> bool:
    """Returns whether the order matters to a mechanism, by positions in its score or by a decay.

    A causal or a local pattern does not count: inside what it shows, the order does not matter.

    Args:
        mechanism: An instance, a name or a config.

    Example:

    >>> from recsys_attn.attention.relative_positions import encodes_order
    >>> [encodes_order(name) for name in ("transformer", "alibi", "reformer", "performer")]
    [False, True, False, False]
    """
    mechanism = presets.get(mechanism)
    if isinstance(mechanism, HeadGroups):
        return any(encodes_order(each) for each in mechanism.mechanisms)
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

    >>> from recsys_attn.attention.relative_positions import NoPositions
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
    >>> from recsys_attn.attention.relative_positions import ScorePositions
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


def _sum(*scores: Any) -> Config:
    return {"class_name": "sum", "config": {"scores": list(scores)}}


@POSITIONS.register("alibi")
@dataclasses.dataclass(frozen=True)
class AlibiPositions(ScorePositions):
    """ALiBi: `score - m |i - j|`, with a slope m of each head. See `scores.Alibi`.

    Source: Press et al., ICLR 2022, arXiv 2108.12409.

    Example:

    >>> from recsys_attn.attention.relative_positions import AlibiPositions
    >>> type(AlibiPositions().in_mechanism("transformer").score).__name__
    'Sum'
    """

    def in_score(self, score: Config) -> Config:
        return _sum(score, "alibi")


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

    >>> from recsys_attn.attention.relative_positions import BucketPositions
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
        return _sum(score, self._bias)


@POSITIONS.register("rotary")
@dataclasses.dataclass(frozen=True)
class RotaryPositions(ScorePositions):
    """Queries and keys turned by their positions before the score. See `scores.Rotary`.

    Source: Su et al., 2021, arXiv 2104.09864.

    Args:
        base: Base of the angular velocities. Defaults to 10,000; raise it for very long histories.
        interleaved: Whether the channels 2m and 2m + 1 turn together, or m and m + H/2.

    Example:

    >>> from recsys_attn.attention.relative_positions import RotaryPositions
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


@POSITIONS.register("transformer_xl")
@dataclasses.dataclass(frozen=True)
class TransformerXlPositions(ScorePositions):
    """Transformer-XL's `(q + u) . k + (q + v) . W R[i - j]`, in both directions.

    The score of the mechanism must be a dot product. It is scaled if that is. For the paper's
    causal form give the mechanism a causal pattern. See `scores.RelativeDot`.

    Source: Dai et al., ACL 2019, arXiv 1901.02860.

    Args:
        max_distance: Largest distance; those beyond it count as it ("clamp_len"). Defaults to 128,
            and in a model to the `max_length` of the history.
        share_biases: Whether all blocks of a model's encoder have the u and v of the first, as in
            the authors' code, or each its own, as in XLNet's. Defaults to False.

    Example:

    >>> from recsys_attn.attention.relative_positions import TransformerXlPositions
    >>> mechanism = TransformerXlPositions(50).in_mechanism("transformer")
    >>> [type(score).__name__ for score in mechanism.score.scores]
    ['Dot', 'RelativeDot']
    """

    max_distance: int | None = None
    share_biases: bool = False

    def __post_init__(self) -> None:
        require_bool("share_biases", self.share_biases)
        if self.max_distance is not None:
            require_positive("max_distance", self.max_distance)

    def for_history(self, length: int) -> TransformerXlPositions:
        reach = length if self.max_distance is None else self.max_distance
        return dataclasses.replace(self, max_distance=reach)

    def in_score(self, score: Config) -> Config:
        content = SCORES.get(score)
        if not isinstance(content, Dot):
            raise ValueError(
                "TransformerXlPositions add u to the queries of a dot product, so the score must "
                f"be 'dot' or 'scaled_dot'. Received: score={type(content).__name__}"
            )
        config: Mapping[str, Any] = score["config"]
        reach = 128 if self.max_distance is None else self.max_distance
        relative = {"max_distance": reach, "scale": content.scale}
        return _sum(
            {**score, "config": {**config, "query_bias": True}},
            {"class_name": "relative_dot", "config": relative},
        )


def share_biases(encoder: Any) -> None:
    """Gives all blocks of an encoder Transformer-XL's u and v of the first.

    Args:
        encoder: A `TransformerEncoder` that is not built, whose mechanisms have been made by
            `TransformerXlPositions`.

    Raises:
        TypeError: A score has no such biases.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, presets
    >>> from recsys_attn.attention.relative_positions import share_biases
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> def blocks():
    ...     return [TransformerBlock(MultiHeadAttention(2, 4, "xlnet")) for _ in range(3)]
    >>> one, each = TransformerEncoder(blocks()), TransformerEncoder(blocks())
    >>> share_biases(one)
    >>> _ = one(keras.ops.ones((2, 5, 8))), each(keras.ops.ones((2, 5, 8)))
    >>> each.count_params() - one.count_params()  # u and v of two blocks: 2 heads of 4
    32
    """
    mechanisms = [block.attention.mechanism for block in encoder.blocks]
    scores: list[Any] = [getattr(mechanism, "score", None) for mechanism in mechanisms]
    first, *others = scores
    for score in (first, *others):
        kinds = [type(part).__name__ for part in getattr(score, "scores", [score])]
        if kinds != ["Dot", "RelativeDot"]:
            raise TypeError(
                "`encoder` must have the score Dot + RelativeDot in every block, as "
                f"TransformerXlPositions make it. Received: {' + '.join(kinds)}"
            )
    for score in others:
        for part, lender in zip(score.scores, first.scores, strict=True):
            part.share_bias(lender)
