"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, require_equal_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import places
from recsys_attn.attention.scores.qk_norm import QkNorm
from recsys_attn.attention.scores.wrapper import nested
from recsys_attn.checks import require_bool, require_number
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("rotary")
class Rotary(Score):
    """`score = score(rotate(q, i), rotate(k, j))` for a query at i and a key at j.

    Each of the H/2 pairs of channels is a point in a plane; `rotate(x, p)` rotates it by the angle
    `p base^(-2 m / H)` in the plane m = 0 ... H/2 - 1. So a dot product depends on i - j only.

    Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021,
    arXiv 2104.09864.

    Args:
        score: The score of the rotated queries and keys: an instance, a name or a config.
        base: Base of the angular velocities. Defaults to 10,000; raise it for very long histories.
        interleaved: Whether a plane consists of the channels 2m and 2m + 1, as in the paper, or of
            m and m + H/2, as in most code. Only the order of channels differs; set it when weights
            are copied.

    Call arguments:
        query, key, allowed: See `Score`; the head size H must be even.
        query_positions, key_positions: Integers that broadcast to (B, N, T) and (B, N, S).

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Rotary
    >>> history = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Rotary("cosine")(history, history).shape)
    (2, 1, 5, 5)
    """

    positional = True

    def __init__(
        self,
        score: Any = "scaled_dot",
        base: float = 10000.0,
        interleaved: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = SCORES.get(score, dtype=self.dtype_policy)
        if self.score.positional:
            name = type(self.score).__name__
            raise ValueError(
                "`score` must not be positional; add a positional score instead, as in "
                f"Rotary() + Alibi(). Received: score of type {name}"
            )
        if any(isinstance(part, QkNorm) for part in nested(self.score)):
            raise ValueError(
                "The gains of QkNorm after the rotation would make scores depend on more than the "
                "distance. Use QkNorm(Rotary(...)). "
                f"Received: score of type {type(self.score).__name__}"
            )
        require_number("base", base, above=1)
        require_bool("interleaved", interleaved)
        self.base = base
        self.interleaved = interleaved
        self.shares_query_and_key = self.score.shares_query_and_key

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        size = require_equal_sizes(query_size, key_size, "Rotary")
        if size % 2:
            raise ValueError(
                "Rotary turns pairs of channels: the head size must be even. "
                f"Received: head size {size}"
            )
        build_part(self, "score", self.score, query_shape, key_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        rows, columns = places(query, key, query_positions, key_positions)
        return self.score(self._turned(query, rows), self._turned(key, columns), allowed=allowed)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, T, N, H), (B or 1, N or 1, T) -> (B, T, N, H)."""
        size = x.shape[-1]
        pairs = size // 2
        velocities = (self.base ** -(np.arange(pairs) / pairs)).astype("float32")
        # In float32: half precision cannot represent large angles.
        positions = ops.cast(ops.swapaxes(positions, 1, 2), "float32")
        angles = ops.multiply(positions[..., None], velocities)  # (B or 1, T, N or 1, H/2)
        cosines, sines = ops.cos(angles), ops.sin(angles)
        shape, axis = ((pairs, 2), -1) if self.interleaved else ((2, pairs), -2)
        planes = ops.reshape(ops.cast(x, "float32"), (*ops.shape(x)[:3], *shape))
        first, second = ops.unstack(planes, axis=axis)
        turned = ops.stack(
            [first * cosines - second * sines, second * cosines + first * sines], axis=axis
        )
        turned = ops.reshape(turned, (*ops.shape(turned)[:3], size))
        return ops.cast(turned, self.compute_dtype)
