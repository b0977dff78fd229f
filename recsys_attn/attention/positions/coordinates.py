"""CoordConv: the position, and the time before an event, as channels of the event."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.positions.base import POSITIONS, CountedPositions
from recsys_attn.checks import is_whole, require_bool, require_mask_of
from recsys_attn.tensors import Shape, Tensor


@POSITIONS.register("coordinates")
class CoordinatePositions(CountedPositions):
    """Gives each event its position as one more channel, and projects it to its width again.

    `output[s] = [input[s]; c(s)] W`, or `[input[s]; c(s); log(1 + t_s - t_{s-1})] W` with `gaps`

    c goes from -1 for the earliest position to 1 for the latest. With from_end it is
    `1 - 2 p / (length - 1)`, where p is the number of later events. W starts as the identity for
    the channels of the event and with small numbers for the others, so that training starts from
    the events as they are.

    One channel is few weights, and interpolates between positions; it cannot tell neighbours in a
    long history as well as a vector of each position does.

    Source: Liu et al., "An Intriguing Failing of Convolutional Neural Networks and the CoordConv
    Solution", NeurIPS 2018, arXiv 1807.03247.

    Args:
        length: Number of positions. Defaults to the number of events in `build`, and in a model to
            the `max_length` of the history. Events beyond it share the last position.
        from_end: Whether to count positions from the latest event, or from the earliest. Defaults
            to True.
        gaps: Whether the time since the event before is a channel too; the calls then need
            `times`, which a model's `encoder.positions` does not have. Defaults to False.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which does not count.
        mask: Keras' own mask of the inputs; replaced by `present`.
        times: (B, S), integers such as seconds, not decreasing. The gap of an event right after
            padding, and of the first, is 0.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.positions import CoordinatePositions
    >>> tuple(CoordinatePositions()(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self, length: int | None = None, from_end: bool = True, gaps: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(length, from_end, **kwargs)
        require_bool("gaps", gaps)
        self.gaps = self.uses_times = gaps

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = input_shape[-1]
        self._last = max(self.known_length(input_shape) - 1, 1)
        self.kernel = self.add_weight(
            shape=(width, width), initializer=keras.initializers.Identity(), name="kernel"
        )
        self.channels = self.add_weight(
            shape=(1 + self.gaps, width),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="channels",
        )

    def call(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        mask: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        present = mask if present is None else present
        self._check_times(times, inputs)
        places = self.places(inputs, present)
        if times is None:
            return self.at(inputs, places)
        gaps = _gaps(ops.convert_to_tensor(times), present)
        share = ops.broadcast_to(self._share(places), ops.shape(gaps))
        return self._with_channels(inputs, [share, gaps])

    def at(self, inputs: Tensor, places: Tensor) -> Tensor:
        return self._with_channels(inputs, [self._share(places)])

    def require_steps(self) -> None:
        super().require_steps()
        if self.gaps:
            raise TypeError("The times of `gaps` are not known step by step. Received: gaps=True")

    def _share(self, places: Tensor) -> Tensor:
        # In float32: bfloat16 has 256 numbers from 0.5 to 1.
        share = 2 * ops.cast(ops.minimum(places, self._last), "float32") / self._last - 1
        return -share if self.from_end else share

    def _with_channels(self, inputs: Tensor, channels: list[Tensor]) -> Tensor:
        extra = ops.cast(ops.stack(channels, axis=-1), self.compute_dtype)
        return ops.matmul(inputs, self.kernel) + ops.matmul(extra, self.channels)

    def _check_times(self, times: Tensor | None, inputs: Tensor) -> None:
        if (times is not None) != self.gaps:
            raise ValueError(
                "`times` are given with gaps=True, and only then. Received: "
                f"gaps={self.gaps}, times={'None' if times is None else 'given'}"
            )
        if times is not None and not is_whole(times):
            raise TypeError(
                "`times` must be integers: float32 rounds seconds since 1970 to minutes. "
                f"Received: times.dtype={times.dtype}"
            )
        require_mask_of("times", times, inputs)

    def compute_output_spec(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        mask: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        self._check_times(times, inputs)
        return super().compute_output_spec(inputs, present, mask)


def _gaps(times: Tensor, present: Tensor | None) -> Tensor:
    """Returns `log(1 + t_s - t_{s-1})`, 0 where one of the two is missing: float32 (B, S)."""
    gaps = ops.pad(times[:, 1:] - times[:, :-1], [[0, 0], [1, 0]])
    if present is not None:
        present = ops.cast(present, "bool")
        follows = ops.logical_and(present[:, 1:], present[:, :-1])
        gaps = ops.where(ops.pad(follows, [[0, 0], [1, 0]]), gaps, 0)
    return ops.log1p(ops.cast(ops.maximum(gaps, 0), "float32"))
