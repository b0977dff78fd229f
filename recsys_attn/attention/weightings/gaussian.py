"""Local attention around a predicted position (local-p)."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import per_head
from recsys_attn.attention.weightings.base import (
    WEIGHTINGS,
    Weighting,
    build_weighting,
    everywhere,
    weights_of,
)
from recsys_attn.checks import require_number, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@WEIGHTINGS.register("gaussian")
class Gaussian(Weighting):
    """Luong's local-p: a weighting in a window around a position that the query predicts.

    `weights[t, s] = weighting_{|s - p_t| <= D}(logits)[t, s] * exp(-(s - p_t)^2 / (2 sigma^2))`

    `p_t = S sigmoid(v^T tanh(W q_t))`, `sigma = D / 2`

    with v and W for each head. Keys outside of the window get no weight. As in the paper, the
    product is not normalised again. S and s count the keys that the query may attend, so that
    padding changes nothing and a causal query does not depend on the future.

    Source: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025, section 3.2.

    Args:
        weighting: The weighting before the Gaussian: an instance, a name or a config.
        width: D, the number of keys of the window on either side, at least 1. Defaults to 10. At
            its ends the Gaussian is `exp(-2)`.
        units: Size of the hidden layer. Defaults to the size of the query.

    Call arguments:
        logits: (B, N, T, S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.
        query: (B, T, N, H).

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense
    >>> from recsys_attn.attention.weightings import Gaussian
    >>> query = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> output, weights = Dense("general", weighting=Gaussian(width=2))(query, history, history)
    >>> tuple(weights.shape)
    (2, 4, 3, 5)
    """

    needs_query = True

    def __init__(
        self,
        weighting: Any = "softmax",
        width: float = 10,
        units: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weighting = WEIGHTINGS.get(weighting, dtype=self.dtype_policy)
        require_number("width", width, least=1)
        self.width = width
        if units is not None:
            require_positive("units", units)
        self.units = units

    def build(self, logits_shape: Shape, query_shape: Shape | None = None) -> None:
        if query_shape is None or len(query_shape) != 4 or None in query_shape[2:]:
            shape = None if query_shape is None else tuple(query_shape)
            raise ValueError(
                "Gaussian predicts a position from the query: give `query` of shape "
                "(B, T, N, H) with N and H known when the layer is built. "
                f"Received: query.shape={shape}"
            )
        heads, size = query_shape[2:]
        units = self.units or size

        def weight(name: str, *shape: int | None) -> Tensor:
            return self.add_weight(
                shape=(heads, *shape), initializer=blockwise(heads or 1, axis=0), name=name
            )

        self.kernel = weight("kernel", size, units)
        self.vector = weight("vector", 1, units)
        build_weighting(self, self.weighting, logits_shape, query_shape)

    def call(
        self, logits: Tensor, allowed: Tensor | None = None, query: Tensor | None = None
    ) -> Tensor:
        # (B, N, T, S): the keys that a query may attend, and their index among them.
        allowed = everywhere(allowed, logits)
        present = ops.cast(allowed, "float32")
        positions = ops.cumsum(present, axis=-1) - 1
        length = ops.sum(present, axis=-1, keepdims=True)
        distance = positions - length * self._fraction(query)
        window = ops.logical_and(allowed, ops.abs(distance) <= self.width)
        weights = weights_of(self.weighting, logits, window, query)
        bell = ops.exp(-ops.square(distance) / (2 * (self.width / 2) ** 2))
        return ops.cast(ops.cast(weights, "float32") * bell, self.compute_dtype)

    def _fraction(self, query: Tensor) -> Tensor:
        """Predicts a position per query, from 0 (first key) to 1 (after the last): (B, N, T, 1)."""
        hidden = ops.cast(ops.tanh(per_head(query, self.kernel)), "float32")
        vector = ops.cast(self.vector, "float32")
        return ops.sigmoid(ops.sum(hidden * vector, axis=-1, keepdims=True))

    def compute_output_shape(self, logits_shape: Shape, query_shape: Shape | None = None) -> Shape:
        return logits_shape
