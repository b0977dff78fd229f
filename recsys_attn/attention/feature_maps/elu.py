"""The features of the linear Transformer."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.feature_maps.base import FEATURE_MAPS, FeatureMap
from recsys_attn.tensors import Tensor


@FEATURE_MAPS.register("elu")
class Elu(FeatureMap):
    """`phi(x) = elu(x) + 1`: `x + 1` above zero and `exp(x)` below, so always positive.

    The simplest map; it does not approximate a softmax and is not random.

    Source: Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention", ICML 2020, arXiv 2006.16236.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.feature_maps import Elu
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> [tuple(features.shape) for features in Elu()(candidates, history)]
    [(2, 4, 3, 8), (2, 4, 5, 8)]
    """

    def query_features(self, query: Tensor) -> Tensor:
        # Not literally elu(x) + 1: below -17 that is exactly 0 in float32.
        return ops.where(query > 0, query + 1, ops.exp(ops.minimum(query, 0.0)))
