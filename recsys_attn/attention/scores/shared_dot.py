"""Reformer's score with one projection for queries and keys."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import dot_products, head_sizes, require_equal_sizes
from recsys_attn.attention.core.normalise import unit
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances
from recsys_attn.checks import require_bool, require_number
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("shared_dot")
class SharedDot(Score):
    """`score = q . k / (|k| sqrt(H))`, plus `self_penalty` for a query and a key at the same
    position.

    Queries and keys have one projection. Keys are normalised to one length, since a long key would
    attract every query. An event is most similar to itself; with the penalty it attends itself only
    if it may attend no other event. Use it with a softmax: without normalisation the penalty would
    count as a weight.

    Source: Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020, arXiv 2001.04451.

    Args:
        scale: Whether to divide by the square root of the head size H, as in the paper's equations.
            The authors' code does not: its logits have a variance that is H times larger.
        self_penalty: Added to the logit of an event with itself; 0 for none.

    Call arguments:
        query, key, allowed: See `Score`; queries and keys of one projection.
        query_positions, key_positions: Integers that broadcast to (B, N, T) and (B, N, S).

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import SharedDot
    >>> history = keras.random.normal((2, 5, 1, 8))
    >>> tuple(SharedDot()(history, history).shape)
    (2, 1, 5, 5)
    """

    positional = True
    shares_query_and_key = True

    def __init__(self, scale: bool = True, self_penalty: float = -1e5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_bool("scale", scale)
        require_number("self_penalty", self_penalty, most=0)
        self.scale = scale
        self.self_penalty = self_penalty

    @property
    def encodes_order(self) -> bool:
        """False: it tells only whether a key is the query itself."""
        return False

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        require_equal_sizes(query_size, key_size, "SharedDot")

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        length = key.shape[-1] ** -0.5 if self.scale else 1.0
        key = ops.cast(unit(key, length), self.compute_dtype)
        logits = dot_products(query, key)
        itself = ops.equal(distances(query, key, query_positions, key_positions), 0)
        # float16 ends at -65504, and the logit is added to the penalty.
        lowest = -3e4 if self.compute_dtype == "float16" else self.self_penalty
        penalty = max(self.self_penalty, lowest)
        return logits + ops.cast(itself, self.compute_dtype) * penalty
