"""The base classes of positions, and their registry."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import keras
from keras import ops

from recsys_attn.checks import require_bool, require_mask_of, require_positive
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Config, Shape, Tensor


class Positions:
    """How an encoder knows the order of its events: a member of `POSITIONS`.

    There are two kinds. An `EventPositions` is a layer that changes the events before the encoder.
    The others become a part of the score of its attention: they override `in_mechanism`.

    Attributes:
        uses_times: Whether they read the times of the events.

    Example:

    >>> from recsys_attn.attention.positions import POSITIONS
    >>> POSITIONS.get({"class_name": "learned", "config": {"length": 50}}).for_history(7).length
    50
    """

    uses_times: bool = False

    def for_history(self, length: int) -> Self:
        """Returns the positions for histories of at most `length` events, where none is given."""
        return self

    def in_mechanism(self, mechanism: Any) -> Any:
        """Returns the mechanism with the positions in its score; the default changes nothing.

        Raises:
            ValueError: The mechanism has no score that can hold them, or has positions already.
        """
        return mechanism

    def get_config(self) -> Config:
        """Returns the arguments."""
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}


POSITIONS = Registry(
    "a kind of positions",
    "positions",
    Positions,
    hint="A layer that changes the events is an EventPositions",
)


class EventPositions(Positions, Layer):
    """A layer that writes the positions into the events.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from recsys_attn.attention.positions import EventPositions
    >>> class Numbered(EventPositions):
    ...     def call(self, inputs, present=None, mask=None):
    ...         return inputs + ops.arange(inputs.shape[1], dtype=inputs.dtype)[:, None]
    >>> print(np.asarray(Numbered()(np.zeros((1, 3, 1), "float32")))[0, :, 0])
    [0. 1. 2.]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        """Checks the shape of the events; subclasses make their weights."""
        if len(input_shape) != 3 or input_shape[-1] is None:
            raise ValueError(
                "`inputs` must have shape (B, S, E) with a known width E. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    def at(self, inputs: Tensor, places: Tensor) -> Tensor:
        """Returns events (B, S, E) with the positions `places` (B or 1, S), one by one."""
        raise TypeError(
            f"{type(self).__name__} does not place single events. Give it the method "
            "`at(inputs, places)`, or use 'sinusoidal' or positions in the score such as 'rotary'"
        )

    def require_steps(self) -> None:
        """Raises if an event changes the positions of those before it."""

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return Layer.get_config(self)


class CountedPositions(EventPositions):
    """Positions that count the events, by default from the latest one.

    The latest event has position 0, so neither padding nor truncation of older events changes a
    position. Events beyond `length` share the last position.

    Args:
        length: Number of positions. Defaults to the number of events in `build`, and in a model
            to the `max_length` of the history.
        from_end: Whether to count from the latest event, or from the earliest. Defaults to True.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.positions import CountedPositions
    >>> present = np.array([[True, True, True, False]])
    >>> print(np.asarray(CountedPositions(50).places(np.zeros((1, 4, 8)), present)))
    [[2 1 0 0]]
    """

    def __init__(self, length: int | None = None, from_end: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        require_bool("from_end", from_end)
        self.length = length
        self.from_end = from_end

    def for_history(self, length: int) -> Self:
        if self.length is not None:
            return self
        return type(self).from_config({**self.get_config(), "length": length})

    def known_length(self, input_shape: Shape) -> int:
        """Returns the number of positions."""
        length = input_shape[1] if self.length is None else self.length
        if length is None:
            raise ValueError(
                "`length` must be given where the number of events S is not known when the layer "
                f"is built. Received: length=None, inputs.shape={tuple(input_shape)}"
            )
        return length

    def require_steps(self) -> None:
        if self.from_end:
            raise TypeError(
                f"{type(self).__name__} count from the latest event, so that each new event moves "
                "all others. Use from_end=False, or positions in the score such as 'rotary'. "
                "Received: from_end=True"
            )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.at(inputs, self.places(inputs, present, mask))

    def places(self, inputs: Tensor, present: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """Returns the number of present events after each event, or before it: (B or 1, S)."""
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        if present is None:
            present = ops.ones((1, ops.shape(inputs)[1]), "bool")
        # The number of earlier events; a flip makes it the number of later ones.
        present = ops.cast(present, "int32")
        if self.from_end:
            present = ops.flip(present, axis=1)
        places = ops.cumsum(present, axis=1) - present
        return ops.flip(places, axis=1) if self.from_end else places
