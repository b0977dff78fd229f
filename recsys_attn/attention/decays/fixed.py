"""The decay of a retentive network."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.attention.decays.base import DECAYS, Decay, known_heads
from recsys_attn.tensors import Shape, Tensor


@DECAYS.register("fixed")
class FixedDecay(Decay):
    """`share = 1 - 2^(-5 - n)` for the heads n = 0, 1, ...: half lives of 22, 44, 88 ... events.

    Source: Sun et al., "Retentive Network: A Successor to Transformer for Large Language Models",
    2023, arXiv 2307.08621.

    Call arguments:
        key: (B, S, N, H).
        features: (B, N, S, M), those of the keys.
        key_mask: (B, S), False for padding.

    Returns:
        Logarithms of the shares, (B, N, S, 1).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention.decays import FixedDecay
    >>> key, features = keras.ops.ones((1, 5, 2, 8)), keras.ops.ones((1, 2, 5, 16))
    >>> shares = np.exp(FixedDecay()(key, features))
    >>> bool(np.allclose(shares[0, :, 0, 0], [1 - 1 / 32, 1 - 1 / 64]))
    True
    """

    def build(self, key_shape: Shape, features_shape: Shape) -> None:
        heads = known_heads(key_shape)
        logarithms = np.log1p(-(2.0 ** (-5 - np.arange(heads))))
        # A weight, so that heads keep their decay when others are pruned.
        self.logarithm = self.add_weight(
            shape=(heads,),
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(logarithms, dtype),
            trainable=False,
            autocast=False,
            name="logarithm",
        )

    def logarithms(self, key: Tensor) -> Tensor:
        logarithm = ops.cast(self.logarithm, "float32")  # of any policy
        return ops.broadcast_to(logarithm[:, None, None], (*ops.shape(key)[:3], 1))
