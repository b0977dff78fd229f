"""Attention of one head, without projections."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import mechanisms
from recsys_attn.attention.layout import broadcast_batch
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Attention(keras.layers.Layer):
    """Each query takes the sum of the values, weighted by how similar it is to their keys.

    `output[t] = sum_s weight(score(query[t], key[s])) * value[s]`

    A query that may attend nothing gets zeros.

    Args:
        mechanism: How it is computed, which holds the score and the weighting: an instance, a
            name or a config of `recsys_attn.attention.mechanisms`.

    Call arguments:
        query: (B, T, E).
        value: (B, S, V).
        key: (B, S, E); the values where None.
        query_mask: (B, T), False for padded queries, which get zeros.
        value_mask, key_mask: (B, S), False for padded keys, which nothing attends.
        attention_mask: (B, T, S), False for pairs that must not meet.
        return_weights: Whether to return the weights too.

    B of the queries may be 1 where that of the keys is not, and the other way round.

    Returns:
        (B, T, V), and with `return_weights` also (B, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Attention, Dense
    >>> target = keras.random.normal((2, 3, 8))
    >>> history = keras.random.normal((2, 5, 8))
    >>> tuple(Attention(Dense("general", weighting="softmax"))(target, history).shape)
    (2, 3, 8)
    """

    def __init__(self, mechanism: Any = "dense", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # masks that Keras finds on the inputs become arguments
        self.mechanism = mechanisms.get(mechanism, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        shapes = (query_shape, key_shape or value_shape, value_shape)
        for name, shape in zip(("query", "key", "value"), shapes, strict=True):
            if len(shape) != 3:
                raise ValueError(
                    f"`{name}` must have 3 axes (batch, positions, width). "
                    f"Received: {name}.shape={tuple(shape)}"
                )
        if not self.mechanism.built:  # it may be shared
            self.mechanism.build(*[(*shape[:2], 1, shape[2]) for shape in shapes])

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        if key_mask is None:
            key_mask = value_mask
        elif value_mask is not None:
            key_mask = ops.logical_and(key_mask, value_mask)
        masks = {
            "query_mask": query_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        output, weights = self.mechanism(
            ops.expand_dims(query, 2),
            ops.expand_dims(value if key is None else key, 2),
            ops.expand_dims(value, 2),
            # Only what is given: a mechanism that cannot honour a mask does not accept it.
            **{name: given for name, given in masks.items() if given is not None},
        )
        output = ops.squeeze(output, 2)
        if not return_weights:
            return output
        return output, None if weights is None else ops.squeeze(weights, 1)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (broadcast_batch(query_shape[0], value_shape[0]), query_shape[1], value_shape[-1])

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        shape = self.compute_output_shape(query.shape, value.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_weights:
            return output
        weights_shape = (*shape[:2], value.shape[1])
        return output, keras.KerasTensor(weights_shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "mechanism": serialize(self.mechanism)}
