"""The features of efficient attention."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.feature_maps.base import FEATURE_MAPS, FeatureMap, stable_exp
from recsys_attn.tensors import Tensor

_LARGEST = 40.0  # exp(2 * 40) times the number of channels is far from overflow in float32


@FEATURE_MAPS.register("softmax")
class Softmax(FeatureMap):
    """`phi_q(q) = softmax(q)` over channels, `phi_k(k) = softmax(k)` over positions.

    So each channel is a distribution over the keys, and the weights of a query are a mixture of
    these distributions. There is no scale of 1 / sqrt(H).

    With `streaming` the softmax over positions is `exp(k)` and its running sum, with k clipped to
    [-40, 40].

    Source: Shen et al., "Efficient Attention: Attention with Linear Complexities", WACV 2021,
    arXiv 1812.01243; the form of running sums is not in the paper.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.feature_maps import Softmax
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> [tuple(features.shape) for features in Softmax()(candidates, history)]
    [(2, 4, 3, 8), (2, 4, 5, 8)]
    """

    per_channel = True

    def query_features(self, query: Tensor) -> Tensor:
        exponentials = stable_exp(query, axis=-1)
        return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)

    def key_features(
        self, key: Tensor, real: Tensor | None = None, streaming: bool = False
    ) -> Tensor:
        if streaming:
            return ops.exp(ops.clip(key, -_LARGEST, _LARGEST))
        return stable_exp(key, axis=2, real=real)
