"""Transformer-XL's positions in the score."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recsys_attn.attention.positions.base import POSITIONS
from recsys_attn.attention.positions.in_score import ScorePositions, sum_of
from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.tensors import Config


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

    >>> from recsys_attn.attention.positions import TransformerXlPositions
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
        return sum_of(
            {**score, "config": {**config, "query_bias": True}},
            {"class_name": "relative_dot", "config": relative},
        )


def share_biases(encoder: Any) -> None:
    """Gives all blocks of an encoder the u and v of its first block, as in Transformer-XL.

    Args:
        encoder: A `TransformerEncoder` that is not built, whose mechanisms have been made by
            `TransformerXlPositions`.

    Raises:
        TypeError: A score has no such biases.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, presets
    >>> from recsys_attn.attention.positions import share_biases
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
