"""Mixers: layers in the place of attention in a block, without queries and keys."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_mask_of, require_positive
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor

MIXERS = Registry(
    "a mixer",
    "mixers",
    call=("inputs", "present"),
    hint="The inputs are (B, S, E), and present (B, S) is False for padding",
)


class Mixer(Layer):
    """The base class: a layer that mixes the positions of one sequence.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which reaches no output and whose output is zero.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks.mixers import Mixer
    >>> class Mean(Mixer):
    ...     def mix(self, x, present):
    ...         return keras.ops.mean(x, axis=1, keepdims=True) + 0 * x
    >>> tuple(Mean()(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)

    Attributes:
        encodes_order: Whether the order of the events matters to it.
        is_causal: Whether no event looks at a later one. A causal mixer steps too, one event at a
            time, by `initial_state` and `step`.
    """

    encodes_order = True

    @property
    def is_causal(self) -> bool:
        return False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        if present is None:
            return self.mix(inputs, None)
        present = ops.cast(present, "bool")
        is_present = present[..., None]
        mixed = self.mix(ops.where(is_present, inputs, ops.zeros_like(inputs)), present)
        return ops.where(is_present, mixed, ops.zeros_like(mixed))

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        """Returns (B, S, E); x is zero for padding."""
        raise NotImplementedError(f"{type(self).__name__} must implement `mix`")

    def initial_state(self, batch_size: Any) -> Any:
        """Returns the state before the first event, of a causal mixer."""
        raise NotImplementedError(f"{type(self).__name__} must implement `initial_state`")

    def step(self, state: Any, event: Tensor) -> tuple[Tensor, Any]:
        """Returns the output (B, 1, E) of one more event (B, 1, E), and the new state."""
        raise NotImplementedError(f"{type(self).__name__} must implement `step`")

    def build(self, input_shape: Shape) -> None:
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)


class PositionMixer(Mixer):
    """The base class of mixers with weights for each position, of which there is a fixed number.

    Args:
        length: Largest number of positions; a shorter sequence uses the first of them. Defaults to
            the number in `build`.

    Example:

    >>> from recsys_attn.blocks import FourierMixer
    >>> from recsys_attn.blocks.mixers import PositionMixer
    >>> isinstance(FourierMixer(50), PositionMixer)
    True
    """

    def __init__(self, length: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        self.length = length

    def build(self, input_shape: Shape) -> None:
        longest = self.length or input_shape[1]
        if longest is None:
            raise ValueError(
                f"{type(self).__name__} needs the length of the longest sequence. Give "
                f"`length`. Received: length=None, inputs.shape={tuple(input_shape)}"
            )
        self.positions = longest
        self._require_length(input_shape)
        self.built = True

    def _require_length(self, shape: Shape) -> None:
        if shape[1] is not None and shape[1] > self.positions:
            raise ValueError(
                f"{type(self).__name__} is made for a `length` of at most {self.positions}. Make "
                f"it with a greater `length`, or cut the sequence. Received: {shape[1]} positions"
            )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        self._require_length(inputs.shape)
        return super().call(inputs, present, mask)
