"""The base class of the blocks of encoders and decoders."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.feed_forward import FeedForward, require_chunks, serialize_activation
from recsys_attn.blocks.sublayer import Sublayer
from recsys_attn.checks import require_mask_of, require_not_negative, require_positive
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


class ResidualBlock(Layer):
    """The base class of blocks: sublayers, the last of them a feed-forward network.

    Args:
        feed_forward_units, activation, feed_forward_chunks: Of the network; 0 units leave it out.
        count: Number of sublayers before the network.
        around: The arguments of each `Sublayer`.

    Example:

    >>> from recsys_attn.blocks.residual_block import ResidualBlock
    >>> len(ResidualBlock(count=2, norm="rms").sublayers)
    3
    """

    def __init__(
        self,
        feed_forward_units: int | None = None,
        activation: Any = "relu",
        *,
        count: int = 1,
        norm: Any = "layer",
        placement: str = "pre",
        residual: Any = "plain",
        dropout: float = 0.0,
        feed_forward_chunks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if feed_forward_units is not None:
            require_not_negative("feed_forward_units", feed_forward_units)
        require_positive("count", count)
        self.feed_forward_units = feed_forward_units
        self.activation = serialize_activation(activation)
        require_chunks("feed_forward_chunks", feed_forward_chunks, self.activation, dropout)
        if feed_forward_chunks is not None and feed_forward_units == 0:
            raise ValueError(
                "`feed_forward_chunks` has no effect without a feed-forward network; leave it out. "
                f"Received: feed_forward_units=0, feed_forward_chunks={feed_forward_chunks}"
            )
        self.feed_forward_chunks = feed_forward_chunks
        self.sublayers = [
            Sublayer(norm, placement, residual, dropout, dtype=self.dtype_policy)
            for _ in range(count + (feed_forward_units != 0))
        ]
        for sublayer in self.sublayers:
            sublayer.residual.per_block = len(self.sublayers)

    def start_smaller(self, name: str, part: Any) -> None:
        """Scales the initial weights of a part as the residual says, before it is built.

        Raises:
            TypeError: It has no weights that can be scaled.
        """
        residual = self.sublayers[0].residual
        if residual.initial_gain == 1:
            return
        if not hasattr(part, "initial_gain"):
            raise TypeError(
                f"{type(residual).__name__} scales the initial weights of `{name}`, which "
                f"{type(part).__name__} does not offer; use MultiHeadAttention, or another residual"
            )
        part.initial_gain = residual.initial_gain

    def build_sublayers(self, shape: Any, condition_shape: Shape | None) -> None:
        """Builds the sublayers and the feed-forward network."""
        if self.feed_forward_units != 0:
            self.feed_forward = FeedForward(
                self.feed_forward_units or 4 * shape[-1],
                self.activation,
                self.sublayers[0].dropout.rate,
                self.feed_forward_chunks,
                dtype=self.dtype_policy,
            )
            self.start_smaller("feed_forward", self.feed_forward)
            self.feed_forward.build(shape)
        for sublayer in self.sublayers:
            sublayer.build(shape, condition_shape=condition_shape)

    def require_condition(self, condition: Any) -> None:
        """Raises for a condition on which nothing depends."""
        if condition is not None and not self.sublayers[0].is_conditional:
            raise TypeError(
                "`condition` has no effect without norm='conditional'; leave it out. "
                f"Received: norm={self.sublayers[0].norm!r}"
            )

    def finish(self, x: Tensor, present: Tensor | None, condition: Tensor | None) -> Tensor:
        """Returns the output of the feed-forward network, with zeros for padding."""
        if self.feed_forward_units != 0:
            around = self.sublayers[-1]
            hidden = self.feed_forward(around.entry(x, present, condition), where=present)
            x = around(x, hidden, present, condition)
        return zero_padding(x, present)

    def output_spec(
        self, inputs: Tensor, present: Tensor | None, arguments: dict[str, Any]
    ) -> Tensor:
        """Checks a symbolic call, and returns its output."""
        require_mask_of("present", present, inputs)
        self.require_condition(arguments.get("condition"))
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        around = self.sublayers[0].get_config()
        names = ("norm", "placement", "residual", "dropout")
        return {**super().get_config(), **{name: around[name] for name in names}}


def checked_shape(inputs_shape: Shape) -> Any:
    """Returns the shape (B, S, E) of the inputs of a block."""
    shape = tuple(inputs_shape)
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            "`inputs` must have shape (B, S, E) with a known width E. "
            f"Received: inputs.shape={shape}"
        )
    return shape


def zero_padding(x: Tensor, present: Tensor | None) -> Tensor:
    """Returns (B, S, E) with zeros where nothing is present."""
    return x if present is None else x * ops.cast(present, x.dtype)[..., None]
