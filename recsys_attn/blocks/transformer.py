"""Transformer blocks around any attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.blocks.feed_forward import FeedForward
from recsys_attn.checks import (
    require_bool,
    require_mask_of,
    require_number,
    require_positive,
    require_share,
)
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import deserialize, layer_of, serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerBlock(Layer):
    """Self-attention and a feed-forward network, each with a residual connection.

    Pre-norm: `x = x + dropout(F(norm(x)))`; post-norm: `x = norm(x + dropout(F(x)))`. Post-norm is
    the Transformer as published, and needs a warm-up of the learning rate; pre-norm trains without.
    After a stack of pre-norm blocks one more layer normalisation is needed: `TransformerEncoder`
    has it.

    Sources: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762; normalised
    first: Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020,
    arXiv 2002.04745.

    Args:
        attention: A layer with the call arguments query and value (B, S, E), `query_mask` and
            `key_mask`, and output (B, S, E), such as `MultiHeadAttention`; or its config.
        feed_forward_units: Size of the hidden layer of the feed-forward network. Defaults to four
            times E.
        activation: Activation of the hidden layer: `"dice"` or any Keras activation.
        normalise_first: Whether the block is pre-norm, or post-norm. Defaults to True.
        dropout: Share of the outputs of attention, hidden layer and feed-forward network dropped in
            training. Defaults to 0.
        epsilon: Number added to the variance in layer normalisation.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which no event attends and whose output is zero.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock
    >>> events = keras.random.normal((2, 5, 8))
    >>> tuple(TransformerBlock(MultiHeadAttention(2, 4), dropout=0.1)(events).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        attention: Any,
        feed_forward_units: int | None = None,
        activation: Any = "relu",
        *,
        normalise_first: bool = True,
        dropout: float = 0.0,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention = layer_of(
            "attention", attention, "query_mask", "key_mask", such_as="MultiHeadAttention"
        )
        if feed_forward_units is not None:
            require_positive("feed_forward_units", feed_forward_units)
        require_bool("normalise_first", normalise_first)
        require_share("dropout", dropout)
        require_number("epsilon", epsilon, least=0)
        self.feed_forward_units = feed_forward_units
        self.activation = activations.serialize(activation)
        self.normalise_first = normalise_first
        self.epsilon = epsilon
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.attention_norm = _normalisation(epsilon, self.dtype_policy)
        self.feed_forward_norm = _normalisation(epsilon, self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        shape, width = tuple(input_shape), input_shape[-1]
        if len(shape) != 3 or width is None:
            raise ValueError(
                "`inputs` must have shape (B, S, E) with a known width E. "
                f"Received: inputs.shape={shape}"
            )
        build_part(self, "attention", self.attention, shape, shape)
        self.feed_forward = FeedForward(
            self.feed_forward_units or 4 * width,
            self.activation,
            self.dropout.rate,
            dtype=self.dtype_policy,
        )
        for layer in (self.feed_forward, self.attention_norm, self.feed_forward_norm):
            layer.build(shape)

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)

        def attention(x: Tensor) -> Tensor:
            return self.attention(x, x, query_mask=present, key_mask=present)

        def feed_forward(x: Tensor) -> Tensor:
            return self.feed_forward(x, where=present)

        x = self._residual(inputs, attention, self.attention_norm)
        x = self._residual(x, feed_forward, self.feed_forward_norm)
        return _zero_padding(x, present)

    def _residual(self, x: Tensor, function: Any, norm: keras.layers.Layer) -> Tensor:
        if self.normalise_first:
            return x + self.dropout(function(norm(x)))
        return norm(x + self.dropout(function(x)))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "attention": serialize(self.attention),
            "feed_forward_units": self.feed_forward_units,
            "activation": self.activation,
            "normalise_first": self.normalise_first,
            "dropout": self.dropout.rate,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerEncoder(Layer):
    """A stack of Transformer blocks and a final layer normalisation.

    `output = norm(block_L(... block_1(inputs)))`, with the norm only if the last block is pre-norm.

    Args:
        blocks: List of `TransformerBlock`s, or their configs.

    Call arguments:
        inputs: (B, S, E), with positions added if the order matters.
        present: (B, S), False for padding, which no event attends and whose output is zero.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import LearnedPositions, TransformerBlock, TransformerEncoder
    >>> events = LearnedPositions(50)(keras.random.normal((2, 5, 8)))
    >>> encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4)) for _ in range(3)])
    >>> tuple(encoder(events).shape)
    (2, 5, 8)
    """

    def __init__(self, blocks: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if not isinstance(blocks, Sequence) or not blocks:
            raise ValueError(
                "`blocks` must be a list of at least one TransformerBlock. "
                f"Received: blocks={blocks!r}"
            )
        self.blocks = [deserialize(block) for block in blocks]
        for block in self.blocks:
            if not isinstance(block, TransformerBlock):
                raise TypeError(
                    "`blocks` must be TransformerBlocks or their configs. "
                    f"Received: {block!r} of type {type(block).__name__}"
                )
        last = self.blocks[-1]
        self.final_norm = (
            _normalisation(last.epsilon, self.dtype_policy) if last.normalise_first else None
        )

    def build(self, input_shape: Shape) -> None:
        for block in self.blocks:
            build_part(self, "block", block, input_shape)
        if self.final_norm is not None:
            self.final_norm.build(input_shape)

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        x = inputs
        for block in self.blocks:
            x = block(x, present=present)
        if self.final_norm is None:
            return x
        return _zero_padding(self.final_norm(x), present)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "blocks": [serialize(block) for block in self.blocks]}


def _normalisation(epsilon: float, dtype: Any) -> keras.layers.Layer:
    return keras.layers.LayerNormalization(epsilon=epsilon, dtype=dtype)


def _zero_padding(x: Tensor, present: Tensor | None) -> Tensor:
    return x if present is None else x * ops.cast(present, x.dtype)[..., None]
