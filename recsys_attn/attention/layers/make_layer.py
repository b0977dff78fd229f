"""Makes the layer around a mechanism, with or without projections."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.attention import presets
from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.multi_head import MultiHeadAttention


def attention_layer(
    mechanism: Any, num_heads: Any, head_dim: Any, dtype: Any, **of_heads: Any
) -> keras.layers.Layer:
    """Returns `Attention` without `num_heads`, else `MultiHeadAttention`.

    It is cross-attention: `Routed` is replaced by `Lookup`. `of_heads` are more arguments of
    `MultiHeadAttention`, such as its gate; None for those not given.
    """
    if (num_heads is None) != (head_dim is None):
        raise ValueError(
            "`num_heads` and `head_dim` go together: both for projections into heads, neither for "
            f"attention without projections. Received: num_heads={num_heads}, head_dim={head_dim}"
        )
    mechanism = presets.get(mechanism, dtype=dtype).as_cross_attention()
    options = {name: value for name, value in of_heads.items() if value is not None}
    if num_heads is None or head_dim is None:
        for name, value in options.items():
            raise ValueError(
                f"`{name}` compares heads, and without `num_heads` and `head_dim` there are none. "
                f"Received: {name}={value!r}, num_heads=None"
            )
        return Attention(mechanism, dtype=dtype)
    return MultiHeadAttention(num_heads, head_dim, mechanism, dtype=dtype, **options)
