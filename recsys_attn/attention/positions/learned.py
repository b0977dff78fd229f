"""Learned positions."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.attention.positions.base import POSITIONS, CountedPositions
from recsys_attn.tensors import Shape, Tensor


@POSITIONS.register("learned")
class LearnedPositions(CountedPositions):
    """Adds a learned vector per position, by default counted from the latest event.

    `output[s] = input[s] + table[number of present events after s]`

    So the latest event has position 0, and neither padding nor truncation of older events changes a
    position. Events beyond `length` share the last position.

    Source: Gehring et al., "Convolutional Sequence to Sequence Learning", ICML 2017,
    arXiv 1705.03122; over histories: Kang and McAuley, "Self-Attentive Sequential Recommendation",
    ICDM 2018, arXiv 1808.09781.

    Args:
        length: Number of positions; the usual length of a history. Defaults to the number of
            events in `build`, and in a model to the `max_length` of the history.
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
    >>> import numpy as np
    >>> from recsys_attn.attention.positions import LearnedPositions
    >>> layer = LearnedPositions(length=50)
    >>> two = np.zeros((1, 2, 8), "float32")
    >>> padded = np.zeros((1, 3, 8), "float32")
    >>> present = np.array([[True, True, False]])
    >>> bool(np.all(layer(padded, present=present)[:, :2] == layer(two)))
    True
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.table = self.add_weight(
            shape=(self.known_length(input_shape), input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="table",
        )

    def at(self, inputs: Tensor, places: Tensor) -> Tensor:
        places = ops.minimum(places, self.table.shape[0] - 1)
        return inputs + ops.cast(ops.take(self.table, places, axis=0), inputs.dtype)
