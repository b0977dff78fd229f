"""gMLP's gating over positions, with and without tiny attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.blocks.mixers import MIXERS, PositionMixer
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.tensors import Shape, Tensor


class GatingState(NamedTuple):
    """The events of a causal gMLP so far, at most L.

    Args:
        count: Their number (B,).
        gates: Normalised gates (B, L, units / 2).
        pairs: Keys and values of tiny attention (B, L, 2 A).
    """

    count: Tensor
    gates: Tensor
    pairs: Tensor


@MIXERS.register("gmlp")
class GatingMixer(PositionMixer):
    """gMLP: channels gated by a learned sum over positions.

    `Z = gelu(X U + c)`, `Z_1, Z_2 = split(Z)`, `output = (Z_1 * (W norm(Z_2) + b)) V + d` with `W`
    (S, S) near zero and `b` (S) of ones at first: a new layer gates nothing. With
    `attention_size`, a single head of attention over X is added to the gate (aMLP). In a pre-norm
    block with `feed_forward_units=0` it is the paper.

    Source: Liu et al., "Pay Attention to MLPs", NeurIPS 2021, arXiv 2105.08050.

    Args:
        length: Largest number of positions; a shorter sequence uses the first of them. Defaults to
            the number in `build`.
        units: Width of Z, even. Defaults to four times E.
        causal: Whether no position looks at a later one.
        attention_size: Size of the head of tiny attention; the paper has 64. Defaults to none.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import GatingMixer, TransformerBlock
    >>> block = TransformerBlock(GatingMixer(50, attention_size=16), feed_forward_units=0)
    >>> tuple(block(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        length: int | None = None,
        units: int | None = None,
        causal: bool = False,
        attention_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(length, **kwargs)
        if units is not None:
            require_positive("units", units)
            if units % 2:
                raise ValueError(f"`units` must be even, for two halves. Received: units={units}")
        require_bool("causal", causal)
        if attention_size is not None:
            require_positive("attention_size", attention_size)
        self.units = units
        self.causal = causal
        self.attention_size = attention_size

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = input_shape[-1] or 0
        self.half = (self.units or 4 * width) // 2
        policy = self.dtype_policy
        self.hidden = keras.layers.Dense(2 * self.half, activation="gelu", dtype=policy)
        self.hidden.build(input_shape)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
        self.norm.build((*input_shape[:-1], self.half))
        self.output_layer = keras.layers.Dense(width, dtype=policy)
        self.output_layer.build((*input_shape[:-1], self.half))
        self.gate_kernel = self.add_weight(
            shape=(self.positions, self.positions),
            initializer=keras.initializers.RandomNormal(stddev=1e-3),
            name="gate_kernel",
        )
        self.gate_bias = self.add_weight(
            shape=(self.positions,), initializer="ones", name="gate_bias"
        )
        if self.attention_size is not None:
            self.projection = keras.layers.Dense(3 * self.attention_size, dtype=policy)
            self.projection.build(input_shape)
            self.attended = keras.layers.Dense(self.half, dtype=policy)
            self.attended.build((*input_shape[:-1], self.attention_size))

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        length = ops.shape(x)[1]
        content, gate = ops.split(self.hidden(x), 2, axis=-1)
        gate = self.norm(gate)
        if present is not None:
            gate = ops.where(present[..., None], gate, ops.zeros_like(gate))
        kernel = self.gate_kernel[:length, :length]
        kernel = ops.tril(kernel) if self.causal else kernel
        gate = ops.matmul(kernel, gate) + self.gate_bias[:length, None]
        if self.attention_size is not None:
            gate = gate + self._attention(x, present)
        return self.output_layer(content * gate)

    def _attention(self, x: Tensor, present: Tensor | None) -> Tensor:
        query, key, value = ops.split(self.projection(x), 3, axis=-1)
        allowed = None if present is None else present[:, None]
        if self.causal:
            length = ops.shape(x)[1]
            causal = ops.tril(ops.ones((length, length), "bool"))
            allowed = causal if allowed is None else ops.logical_and(causal, allowed)
        return self._attended(query, key, value, allowed)

    def _attended(
        self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None
    ) -> Tensor:
        query = query * query.shape[-1] ** -0.5
        logits = ops.cast(ops.matmul(query, ops.transpose(key, (0, 2, 1))), "float32")
        if allowed is not None:
            logits = ops.where(allowed, logits, ops.full_like(logits, -1e30))
        weights = ops.cast(ops.softmax(logits), value.dtype)
        return self.attended(ops.matmul(weights, value))

    @property
    def is_causal(self) -> bool:
        return self.causal

    def initial_state(self, batch_size: Any) -> GatingState:
        def empty(size: int) -> Tensor:
            return ops.zeros((batch_size, self.positions, size), self.compute_dtype)

        count = ops.zeros((batch_size,), "int32")
        return GatingState(count, empty(self.half), empty(2 * (self.attention_size or 0)))

    def step(self, state: GatingState, event: Tensor) -> tuple[Tensor, GatingState]:
        count = ops.convert_to_tensor(state.count)
        place = ops.arange(self.positions, dtype="int32")

        def written(cache: Tensor, row: Tensor) -> Tensor:
            return ops.where((place == count[:, None])[..., None], row, cache)

        content, gate = ops.split(self.hidden(event), 2, axis=-1)
        gates, pairs = written(state.gates, self.norm(gate)), state.pairs
        row = ops.minimum(count, self.positions - 1)
        kernel = ops.where(place <= count[:, None], ops.take(self.gate_kernel, row, axis=0), 0)
        gate = ops.matmul(ops.cast(kernel, gates.dtype)[:, None], gates)
        gate = gate + ops.cast(ops.take(self.gate_bias, row), gates.dtype)[:, None, None]
        if self.attention_size is not None:
            query, key, value = ops.split(self.projection(event), 3, axis=-1)
            pairs = written(pairs, ops.concatenate([key, value], axis=-1))
            keys, values = ops.split(pairs, 2, axis=-1)
            gate = gate + self._attended(query, keys, values, (place <= count[:, None])[:, None])
        output = self.output_layer(content * gate)
        # There are no weights for more events: NaN, not the output of another position.
        output = ops.where((count < self.positions)[:, None, None], output, float("nan"))
        return output, GatingState(count + 1, gates, pairs)
