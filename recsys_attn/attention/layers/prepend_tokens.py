"""Learned tokens in front of a sequence."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_mask_of, require_positive
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class PrependTokens(Layer):
    """Attention over `[tokens; inputs]`, with learned tokens.

    With the pattern `Prepended(count, Local(w))` the tokens are global: they attend all events and
    all events attend them, so that information reaches any distance in two layers. They are
    removed from the output, or returned as a summary of the sequence.

    Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP
    2020, arXiv 2004.08483.

    Args:
        count: Number of tokens; a few are usual.
        attention: The self-attention, a `MultiHeadAttention` or an `Attention`.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding.
        return_tokens: Whether to return the tokens too.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E), and with `return_tokens` also (B, count, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense, MultiHeadAttention, PrependTokens, patterns
    >>> pattern = patterns.Prepended(2, patterns.Local(3))
    >>> layer = PrependTokens(2, MultiHeadAttention(2, 4, Dense(pattern=pattern)))
    >>> tuple(layer(keras.random.normal((3, 11, 8))).shape)
    (3, 11, 8)
    """

    def __init__(self, count: int, attention: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("count", count)
        self.count = count
        self.attention: Any = layer_of(
            "attention", attention, "query_mask", "key_mask", such_as="MultiHeadAttention"
        )

    def build(self, inputs_shape: Shape) -> None:
        if len(inputs_shape) != 3 or inputs_shape[-1] is None:
            raise ValueError(
                "`inputs` must have 3 axes (batch, positions, width) and a known width. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        batch, length, width = (*inputs_shape[:2], int(inputs_shape[-1]))
        self.tokens = self.add_weight(
            shape=(self.count, width),
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            name="tokens",
        )
        shape = (batch, None if length is None else length + self.count, width)
        build_part(self, "attention", self.attention, shape, shape)

    def call(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        return_tokens: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        present = mask if present is None else present
        if return_tokens and self.attention.mechanism.is_causal:
            raise ValueError(
                "`return_tokens` needs tokens that see the events, and under a causal mechanism "
                "they see none, since they stand in front. Use a pattern such as Prepended, or a "
                "mechanism that is not causal. "
                f"Received: return_tokens=True, with {self.attention.mechanism!r}"
            )
        require_mask_of("present", present, inputs)
        batch = ops.shape(inputs)[0]
        tokens = ops.cast(self.tokens, inputs.dtype)
        tokens = ops.broadcast_to(tokens[None], (batch, self.count, inputs.shape[-1]))
        x = ops.concatenate([tokens, inputs], axis=1)
        if present is not None:
            always = ops.ones((batch, self.count), dtype="bool")
            present = ops.concatenate([always, ops.cast(present, "bool")], axis=1)
        output = self.attention(x, x, query_mask=present, key_mask=present)
        output = ops.cast(output, self.compute_dtype)  # the attention has its own dtype policy
        rest = output[:, self.count :]
        return (rest, output[:, : self.count]) if return_tokens else rest

    def compute_output_spec(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        return_tokens: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        require_mask_of("present", present, inputs)
        output = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_tokens:
            return output
        tokens_shape = (inputs.shape[0], self.count, inputs.shape[-1])
        return output, keras.KerasTensor(tokens_shape, dtype=self.compute_dtype)
