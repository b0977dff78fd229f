"""Attention that knows which events are of one segment, such as one session."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_batch
from recsys_attn.attention.layers.call_arguments import checked_shapes, masks_of_call
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.checks import is_whole
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class SegmentAttention(Layer):
    """Multi-head attention with XLNet's relative segment encoding.

    `score + (q + r) . s / sqrt(H)`, where s is one learned vector of a head for keys of the query's
    segment, and another for all other keys; r is a learned bias of the queries. No segment has a
    vector of its own, so that there may be any number of them, such as the sessions of a user.

    Source: Yang et al., "XLNet: Generalized Autoregressive Pretraining for Language Understanding",
    NeurIPS 2019, arXiv 1906.08237, section 2.5.

    Args:
        attention: A `MultiHeadAttention` with the mechanism `Dense`, such as `"xlnet"`, or its
            config.

    Call arguments:
        query_segments, key_segments: (B, T) and (B, S), integers. Those of the keys default to
            those of the queries in self-attention. Without segments the term is left out.
        query, value, key, query_mask, key_mask, attention_mask, attention_bias, query_positions,
            key_positions, return_weights, mask: As in `MultiHeadAttention`.

    Returns:
        (B, T, E), and with `return_weights` also (B, N, T, S).

    Raises:
        TypeError: The mechanism takes no bias for each pair.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention, SegmentAttention
    >>> layer = SegmentAttention(MultiHeadAttention(2, 4, "xlnet"))
    >>> sessions = np.array([[0, 0, 1, 1, 1]])
    >>> tuple(layer(keras.random.normal((1, 5, 8)), query_segments=sessions).shape)
    (1, 5, 8)
    """

    def __init__(self, attention: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention: Any = deserialize(attention)
        if not isinstance(self.attention, MultiHeadAttention):
            raise TypeError(
                "`attention` must be a MultiHeadAttention or its config. "
                f"Received: {attention!r} of type {type(attention).__name__}"
            )
        self.attention.mechanism.require_honoured("attention_bias")

    @property
    def mechanism(self) -> Any:
        return self.attention.mechanism

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        shapes = [shape for shape in (query_shape, value_shape, key_shape) if shape is not None]
        build_part(self, "attention", self.attention, *shapes)
        heads, size = self.attention.num_heads, self.attention.head_dim
        self.segment_bias = self.add_weight(
            shape=(heads, size), initializer="zeros", name="segment_bias"
        )
        self.segments = self.add_weight(
            shape=(2, heads, size),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="segments",
        )

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        query_segments: Tensor | None = None,
        key_segments: Tensor | None = None,
        return_weights: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        values = query if value is None else value
        keys = values if key is None else key
        if value is None and key is None:
            query_mask = mask if query_mask is None else query_mask
            key_mask = query_mask if key_mask is None else key_mask
            key_positions = query_positions if key_positions is None else key_positions
            key_segments = query_segments if key_segments is None else key_segments
        masks = masks_of_call(
            self.mechanism,
            self.attention.num_heads,
            (query, keys, values),
            None,
            key_mask,
            query_mask=query_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            query_positions=query_positions,
            key_positions=key_positions,
        )
        heads = self.attention.project(query, values, key)
        if query_segments is not None or key_segments is not None:
            same = _same(query_segments, key_segments)
            bias = self._bias(heads[0], same)
            masks = masks._replace(bias=bias if masks.bias is None else masks.bias + bias)
        output, weights = self.attention.heads(
            *heads, query, masks=masks, return_weights=return_weights
        )
        output = self.attention.join(ops.cast(output, self.compute_dtype))
        return (output, weights) if return_weights else output

    def _bias(self, query: Tensor, same: Tensor) -> Tensor:
        """(B, T, N, H), (B, T, S) -> (B, N, T, S)."""
        query = (query + ops.cast(self.segment_bias, query.dtype)) * query.shape[-1] ** -0.5
        products = ops.einsum("btnh,snh->bnts", query, ops.cast(self.segments, query.dtype))
        products = ops.cast(products, "float32")
        return ops.where(same[:, None], products[..., :1], products[..., 1:])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        heads = self.attention.num_heads
        (query, key, value), return_weights = checked_shapes(self, heads, args, kwargs)
        batch = broadcast_batch(query[0], broadcast_batch(key[0], value[0]))
        output = keras.KerasTensor((batch, query[1], query[-1]), dtype=self.compute_dtype)
        if not return_weights:
            return output
        return output, self.mechanism.weights_spec((batch, *query[1:]), (batch, *key[1:]))


def _same(query_segments: Any, key_segments: Any) -> Tensor:
    """Returns whether query and key are of one segment, (B, T, S)."""
    for name, segments in (("query_segments", query_segments), ("key_segments", key_segments)):
        if segments is None:
            raise ValueError(
                f"Segments are those of queries and of keys; give both. Received: {name}=None"
            )
        if len(segments.shape) != 2 or not is_whole(segments):
            raise TypeError(
                f"`{name}` must be integers (B, S), the segment of each position. "
                f"Received: {name}.shape={tuple(segments.shape)}, dtype={segments.dtype}"
            )
    rows, columns = (ops.cast(x, "int32") for x in (query_segments, key_segments))
    return ops.equal(rows[:, :, None], columns[:, None])
