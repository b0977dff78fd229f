"""The output of a sequence model: from a state to a score of each item."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.backend.sparse_gradients import rows_at
from recsys_attn.blocks import activations
from recsys_attn.checks import require_bool, require_number, require_positive
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ItemScores(Layer):
    """Turns states into queries, whose dot products with the vectors of items are scores.

    `score_i = q(h) . e_i + b_i`, with `q(h) = h`; or `activation(W h + c)` with `hidden`, or
    `W h` where the states are wider than the items; and with a `temperature`
    `q(h) . e_i / (|q(h)| |e_i| temperature)`.

    Args:
        size: Number of rows of the table of items, with the reserved ids.
        width: Width E of an item's vector.
        tied: Whether the vectors are those of the embedding, or a second table. A second one has
            more freedom, and costs as much memory again. Defaults to True.
        bias: Whether each item has an offset, as in BERT4Rec.
        hidden: An activation of a layer before the product, as in BERT4Rec; None for no layer.
        temperature: Divides cosines, as in HSTU, where 0.05 is usual. None: dot products.

    Call arguments:
        states: `(..., K)`.

    Returns:
        The queries `(..., E)`, in float32.

    Example:

    >>> import keras
    >>> from recsys_attn.models.item_scores import ItemScores
    >>> layer = ItemScores(size=7, width=4, hidden="gelu")
    >>> tuple(layer(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 4)
    """

    def __init__(
        self,
        size: int,
        width: int,
        tied: bool = True,
        bias: bool = False,
        hidden: Any = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("size", size)
        require_positive("width", width)
        require_bool("tied", tied)
        require_bool("bias", bias)
        if temperature is not None:
            require_number("temperature", temperature, above=0)
        self.size, self.width, self.tied, self.bias = size, width, tied, bias
        self.hidden = None if hidden is None else activations.serialize(hidden)
        self.temperature = temperature
        self._vectors: Any = None
        self._offsets: Any = None
        self._layer: Any = None

    def build(self, states_shape: Shape) -> None:
        if self.hidden is not None or states_shape[-1] != self.width:
            self._layer = keras.layers.Dense(
                self.width,
                activation=self.hidden,
                use_bias=self.hidden is not None,
                dtype=self.dtype_policy,
            )
            self._layer.build(states_shape)
        if not self.tied:
            self._vectors = self.add_weight(
                shape=(self.size, self.width),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                autocast=False,
                name=f"table_{self.width}",
            )
        if self.bias:
            self._offsets = self.add_weight(
                shape=(self.size,), initializer="zeros", autocast=False, name="offsets"
            )

    def call(self, states: Tensor) -> Tensor:
        query = states if self._layer is None else self._layer(states)
        query = ops.cast(query, "float32")
        return query if self.temperature is None else normalised(query) / self.temperature

    def vectors(self, embedding: Any, ids: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Returns vectors `(..., E)` and offsets `(...)` of items, in float32.

        Args:
            embedding: Returns the vectors of ids, or all of them for None: those of tied scores.
            ids: Integers, or None for all rows in order.
        """
        if self.tied:
            vectors = embedding(ids)
        else:
            vectors = (
                ops.convert_to_tensor(self._vectors) if ids is None else rows_at(self._vectors, ids)
            )
        vectors = ops.cast(vectors, "float32")
        vectors = vectors if self.temperature is None else normalised(vectors)
        if self._offsets is None:
            return vectors, None
        return vectors, self._offsets if ids is None else rows_at(self._offsets, ids)


def normalised(x: Tensor) -> Tensor:
    """Returns vectors of length 1; zeros stay."""
    return x * ops.rsqrt(ops.maximum(ops.sum(x * x, axis=-1, keepdims=True), 1e-12))
