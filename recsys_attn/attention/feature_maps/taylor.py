"""The first two terms of the exponential."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.normalise import unit
from recsys_attn.attention.feature_maps.base import FEATURE_MAPS, FeatureMap
from recsys_attn.tensors import Tensor


@FEATURE_MAPS.register("taylor")
class Taylor(FeatureMap):
    """`phi(x) = [1, x / |x|]`, so that the similarity is `1 + cos(q, k)`, never negative.

    The exponential `exp(q . k)` to first order, for unit vectors q and k. It is nearly flat: the
    largest weight is twice that of a key orthogonal to the query.

    Source: Su, "Linear attention: must attention have a softmax?", 2020,
    https://spaces.ac.cn/archives/7546.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.feature_maps import Taylor
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> [tuple(features.shape) for features in Taylor()(candidates, history)]
    [(2, 4, 3, 9), (2, 4, 5, 9)]
    """

    floor = 1e-6  # rounding leaves a small number of either sign for a query opposite to every key

    def count(self, head_size: int) -> int:
        return head_size + 1

    def query_features(self, query: Tensor) -> Tensor:
        return ops.concatenate([ops.ones_like(query[..., :1]), unit(query)], axis=-1)
