"""CoordConv: the position as a channel of the event."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.blocks.positions.base import POSITIONS, CountedPositions
from recsys_attn.tensors import Shape, Tensor


@POSITIONS.register("coordinates")
class CoordinatePositions(CountedPositions):
    """Gives each event its position as one more channel, and projects it to its width again.

    `output[s] = [input[s]; c(s)] W` with `c(s)` from -1 for the earliest position to 1 for the
    latest. With from_end `c = 1 - 2 p / (length - 1)`, where p is the number of later events. W
    starts as the identity for the channels of the event and with small numbers for c, so that
    training starts from the events as they are.

    One channel is few weights, and interpolates between positions; it cannot tell neighbours in a
    long history as well as a vector of each position does.

    Source: Liu et al., "An Intriguing Failing of Convolutional Neural Networks and the CoordConv
    Solution", NeurIPS 2018, arXiv 1807.03247.

    Args:
        length: Number of positions. Defaults to the number of events in `build`, and in a model to
            the `max_length` of the history. Events beyond it share the last position.
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
    >>> from recsys_attn.blocks import CoordinatePositions
    >>> tuple(CoordinatePositions()(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = input_shape[-1]
        self._last = max(self.known_length(input_shape) - 1, 1)
        self.kernel = self.add_weight(
            shape=(width, width), initializer=keras.initializers.Identity(), name="kernel"
        )
        self.coordinate = self.add_weight(
            shape=(width,),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="coordinate",
        )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        places = ops.minimum(self.places(inputs, present, mask), self._last)
        # In float32: bfloat16 has 256 numbers from 0.5 to 1.
        share = 2 * ops.cast(places, "float32") / self._last - 1
        channel = ops.cast(-share if self.from_end else share, self.compute_dtype)
        return ops.matmul(inputs, self.kernel) + channel[..., None] * self.coordinate
