"""Axial positions: two small tables in place of a large one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import ops

from recsys_attn.attention.positions.base import POSITIONS, CountedPositions
from recsys_attn.checks import require_bool, require_sizes
from recsys_attn.tensors import Config, Shape, Tensor


@POSITIONS.register("axial")
class AxialPositions(CountedPositions):
    """Adds a vector for the row and one for the column of a position in a grid.

    `output[s] = input[s] + [rows[p // n]; columns[p mod n]]` with the position p and n columns, or
    with the sum of both in place of the concatenation. The tables have `(m + n) E / 2` weights, or
    `(m + n) E` with the sum, where `LearnedPositions` has `m n E`: for long histories.

    Sources: Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020, arXiv 2001.04451
    (concatenation); Ho et al., "Axial Attention in Multidimensional Transformers", 2019,
    arXiv 1912.12180 (sum).

    Args:
        shape: Numbers of rows m and of columns n. Defaults to a square for the number of events in
            `build`, and in a model for the `max_length` of the history. Events beyond m times n
            share the last position.
        sum: Whether the two vectors are added, each as wide as the events, or concatenated.
        from_end: Whether to count positions from the latest event, or from the earliest. Defaults
            to True.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which does not count.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.positions import AxialPositions
    >>> layer = AxialPositions((64, 64))
    >>> tuple(layer(keras.random.normal((2, 5, 8))).shape), layer.count_params()
    ((2, 5, 8), 512)
    """

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        sum: bool = False,
        from_end: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(None, from_end, **kwargs)
        require_bool("sum", sum)
        if shape is not None:
            shape = require_sizes("shape", shape)
            if len(shape) != 2:
                raise ValueError(f"`shape` must be two sizes. Received: shape={shape}")
            self.length = math.prod(shape)
        self.shape = shape
        self.sum = sum

    def for_history(self, length: int) -> Self:
        if self.shape is not None:
            return self
        return type(self).from_config({**self.get_config(), "shape": _square(length)})

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = int(input_shape[-1] or 0)
        if not self.sum and width < 2:
            raise ValueError(
                "A concatenation needs events of a width of at least 2. Received: "
                f"inputs.shape={tuple(input_shape)}"
            )
        rows, columns = self.shape or _square(self.known_length(input_shape))
        widths = (width, width) if self.sum else (width // 2, width - width // 2)
        self.rows, self.columns = (
            self.add_weight(
                shape=shape,
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name=name,
            )
            for name, shape in (("rows", (rows, widths[0])), ("columns", (columns, widths[1])))
        )

    def at(self, inputs: Tensor, places: Tensor) -> Tensor:
        rows, columns = self.rows.shape[0], self.columns.shape[0]
        places = ops.minimum(places, rows * columns - 1)
        row = ops.take(self.rows, places // columns, axis=0)
        column = ops.take(self.columns, places % columns, axis=0)
        vectors = row + column if self.sum else ops.concatenate([row, column], axis=-1)
        return inputs + ops.cast(vectors, inputs.dtype)

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("length")  # it is that of the shape
        return config


def _square(length: int) -> tuple[int, int]:
    """Returns the sizes of a grid, nearly a square, with at least `length` places."""
    columns = math.isqrt(length - 1) + 1
    return math.ceil(length / columns), columns
