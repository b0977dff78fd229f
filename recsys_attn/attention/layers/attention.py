"""Attention of one head, without projections."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.core.head_layout import broadcast_batch
from recsys_attn.attention.layers.call_arguments import checked_shapes, masks_of_call
from recsys_attn.layer import Layer, build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Attention(Layer):
    """Returns for each query the sum of the values, weighted by the similarity to their keys.

    `output[t] = sum_s weight(score(query[t], key[s])) * value[s]`

    The output of a query that may attend no key is zero.

    Args:
        mechanism: The computation, with its score and weighting: an instance, a name or a config
            of `recsys_attn.attention.mechanisms` or `recsys_attn.attention.presets`. Defaults to
            `"transformer"`, scaled dot products and a softmax.

    Call arguments:
        query: (B, T, E).
        value: (B, S, V).
        key: (B, S, E). Defaults to `value`.
        query_mask: (B, T), False for padded queries, whose output is zero.
        value_mask, key_mask: (B, S), False for padded keys, which no query attends.
        attention_mask: (B, T, S), False for pairs that are not allowed.
        attention_bias: (B, T, S), added to the scores.
        query_positions, key_positions: (B, T) and (B, S), integers. Default to 0 ... S-1 for the
            keys and the last T of them for the queries.
        return_weights: Whether to return the weights too.

    One of the two batches, of queries or of keys, may be 1.

    Returns:
        (B, T, V), and with `return_weights` also (B, T, S), or the `SparseWeights` or
        `SummaryWeights` of a fast mechanism, of which `dense_weights` makes the same.

    Raises:
        TypeError: The mechanism does not support one of the masks, the bias or the positions.
        ValueError: A tensor has a wrong number of axes, or `return_weights` is True and the
            mechanism makes no weights.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Attention, Dense
    >>> target = keras.random.normal((2, 3, 8))
    >>> history = keras.random.normal((2, 5, 8))
    >>> tuple(Attention(Dense("general", weighting="softmax"))(target, history).shape)
    (2, 3, 8)
    """

    elsewhere: ClassVar = {
        "gate": "it compares heads, so MultiHeadAttention takes it",
        "disagreement": "it compares heads, so MultiHeadAttention takes it",
    }

    def __init__(self, mechanism: Any = "transformer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # the Keras masks of the inputs become arguments
        self.mechanism = presets.get(mechanism, dtype=self.dtype_policy)
        self.mechanism.require_one_projection("Attention")

    def __call__(self, query: Any, value: Any, key: Any = None, *args: Any, **kwargs: Any) -> Any:
        self.mechanism.require_own_sequence(query, value, key)
        return super().__call__(query, value, key, *args, **kwargs)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        shapes = (query_shape, key_shape or value_shape, value_shape)
        for name, shape in zip(("query", "key", "value"), shapes, strict=True):
            if len(shape) != 3:
                raise ValueError(
                    f"`{name}` must have 3 axes (batch, positions, width). "
                    f"Received: {name}.shape={tuple(shape)}"
                )
        build_part(
            self, "mechanism", self.mechanism, *[(*shape[:2], 1, shape[2]) for shape in shapes]
        )

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        if return_weights:
            self.mechanism.require_weights("`return_weights`", on_request=True)
        key = value if key is None else key
        masks = masks_of_call(
            self.mechanism,
            1,
            (query, key, value),
            value_mask,
            key_mask,
            query_mask=query_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            query_positions=query_positions,
            key_positions=key_positions,
        )
        query, key = ops.expand_dims(query, 2), ops.expand_dims(key, 2)
        value = ops.expand_dims(value, 2)
        output, weights = self.mechanism(
            query, key, value, masks=masks, return_weights=return_weights
        )
        output = ops.cast(ops.squeeze(output, 2), self.compute_dtype)
        if not return_weights:
            return output
        return output, keras.tree.map_structure(lambda x: ops.squeeze(x, 1), weights)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        (query, key, value), return_weights = checked_shapes(self, 1, args, kwargs)
        batch = broadcast_batch(query[0], broadcast_batch(key[0], value[0]))
        output = keras.KerasTensor((batch, query[1], value[-1]), dtype=self.compute_dtype)
        if not return_weights:
            return output
        weights = self.mechanism.weights_spec((batch, *query[1:]), (batch, *key[1:]))
        return output, keras.tree.map_structure(
            lambda x: keras.KerasTensor((x.shape[0], *x.shape[2:]), dtype=x.dtype), weights
        )
