"""The base class of feature maps."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, swap_heads
from recsys_attn.attention.core.masks import Masks
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor

# Below every exponent, and far enough from overflow for a subtraction.
_NEVER = float(np.finfo("float32").min / 2)


class FeatureMap(Layer):
    """Maps queries and keys to M features, with the similarity as inner product.

    `similarity = phi_q(q) . phi_k(k)`, so that sums over the keys do not depend on the query. A map
    overrides `query_features`, and `key_features` if keys have other features than queries.

    Everything is computed in float32. A common factor of all features of one query, or of all keys,
    changes nothing.

    Attributes:
        contract: The promise of each map, for errors.
        per_channel: Whether each channel of the key features is normalised over the keys, instead
            of the weights of each query.
        floor: The smallest normaliser. It keeps the gradient finite if there is no key.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        key_mask: (B, S), False for padded keys, whose features are zeros.
        streaming: Whether the features of a key must not depend on other keys, not even by a common
            factor for numerical stability. Causal attention needs it: the factor cancels, but the
            future would change the rounding of the past.

    Returns:
        Features of the queries (B, N, T, M) and of the keys (B, N, S, M).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Linear
    >>> from recsys_attn.attention.feature_maps import FeatureMap
    >>> class SquaredRelu(FeatureMap):
    ...     def query_features(self, query):
    ...         return keras.ops.square(keras.ops.relu(query))
    >>> events = keras.random.normal((2, 5, 1, 8))
    >>> output, _ = Linear(SquaredRelu(), causal=True)(events, events, events)
    >>> tuple(output.shape)
    (2, 5, 1, 8)
    """

    contract = "finite features, those of a key without other keys for causal attention"
    per_channel = False
    floor = 1e-18  # the inverse square of a smaller number is infinite in float32

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        if query_size != key_size:
            raise ValueError(
                "A feature map needs queries and keys of one head size H; project them to one. "
                f"Received: query size {query_size}, key size {key_size}"
            )

    def count(self, head_size: int) -> int:
        """Returns the number of features M."""
        return head_size

    def query_features(self, query: Tensor) -> Tensor:
        """(B, N, T, H) -> (B, N, T, M)."""
        raise NotImplementedError(f"{type(self).__name__} must implement `query_features`")

    def key_features(
        self, key: Tensor, real: Tensor | None = None, streaming: bool = False
    ) -> Tensor:
        """(B, N, S, H) -> (B, N, S, M); `real` broadcasts to the keys, False for padding."""
        return self.query_features(key)

    def map_query(self, query: Tensor) -> Tensor:
        """(B, T, N, H) -> (B, N, T, M)."""
        return self.query_features(ops.cast(swap_heads(query), "float32"))

    def map_key(
        self, key: Tensor, key_mask: Tensor | None = None, streaming: bool = False
    ) -> Tensor:
        """(B, S, N, H) -> (B, N, S, M), zeros for padded keys."""
        key = ops.cast(swap_heads(key), "float32")
        if key_mask is None:
            return self.key_features(key, streaming=streaming)
        shape = (key.shape[0], key.shape[2])
        allowed = Masks.of(shape, shape, key_mask=key_mask).allowed()
        real = ops.swapaxes(allowed, 2, 3)  # (B, 1, S, 1)
        # Before the map too: the gradient at padding may not be finite.
        features = self.key_features(ops.where(real, key, 0.0), real, streaming)
        return ops.where(real, features, 0.0)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        key_mask: Tensor | None = None,
        streaming: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return self.map_query(query), self.map_key(key, key_mask, streaming)

    def compute_output_spec(
        self,
        query: Tensor,
        key: Tensor,
        key_mask: Tensor | None = None,
        streaming: bool = False,
    ) -> tuple[Tensor, Tensor]:
        (batch, queries, heads, size), (key_batch, keys, _, _) = query.shape, key.shape
        features = self.count(size)
        return (
            keras.KerasTensor((batch, heads, queries, features), dtype="float32"),
            keras.KerasTensor((key_batch, heads, keys, features), dtype="float32"),
        )


FEATURE_MAPS = Registry("a feature map", "feature_maps", FeatureMap)


def stable_exp(
    exponents: Tensor, axis: int | tuple[int, ...], real: Tensor | None = None
) -> Tensor:
    """Returns `exp(x - max x)`, with the maximum over `axis` and the real entries."""
    if real is not None:
        exponents = ops.where(real, exponents, _NEVER)
    largest = ops.max(exponents, axis=axis, keepdims=True, initial=_NEVER)
    return ops.exp(exponents - ops.stop_gradient(largest))
