"""DIEN's GRUs with attention in their gates."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.backend.scans import last_state
from recsys_attn.checks import require_mask_of, require_positive, unknown_name
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor

KINDS = ("agru", "aigru", "augru")


@keras.saving.register_keras_serializable(package="recsys_attn")
class AttentionalGru(Layer):
    """A GRU over a history for each of several candidates, led by their attention to the events.

    With the weight `a` of an event `i` for a candidate, the state `h` before it, and
    `u = sigmoid(W_u i + U_u h + b_u)`, `r = sigmoid(W_r i + U_r h + b_r)`,
    `c = tanh(W_c i + r * U_c h + b_c)`:

    - `"augru"`, attention scales the update gate: `h' = (1 - a u) h + a u c`
    - `"agru"`, attention is the update gate: `h' = (1 - a) h + a c`
    - `"aigru"`, attention scales the input: `h' = (1 - u) h + u c`, with `a i` for `i`

    The first state is zero, and padding leaves the state as it is. The events are projected once
    for all candidates; the recurrence runs for each of them, all in one product for an event.

    Source: Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction",
    AAAI 2019, arXiv 1809.03672, equations 2 to 5 and section "Interest Evolving Layer".

    Args:
        kind: `"augru"`, the best one in the paper, `"agru"` or `"aigru"`.
        units: Size U of the state. Defaults to E.

    Call arguments:
        inputs: (B, S, E), oldest first.
        weights: (B, T, S), the weight of each event for each candidate.
        present: (B, S), False for padding.

    Returns:
        (B, T, U), the state after the last event; zeros without any.

    Raises:
        ValueError: `kind` is unknown, `units` is not positive, or the mask does not fit.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import AttentionalGru
    >>> events, weights = keras.random.normal((2, 5, 8)), keras.random.uniform((2, 3, 5))
    >>> tuple(AttentionalGru()(events, weights).shape)
    (2, 3, 8)
    """

    def __init__(self, kind: str = "augru", units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in KINDS:
            raise ValueError(f"`kind` must be a name. {unknown_name(kind, KINDS)}")
        if units is not None:
            require_positive("units", units)
        self.kind = kind
        self.units = units

    def build(self, inputs_shape: Shape, *shapes: Shape) -> None:
        width = inputs_shape[-1] or 0
        self.size = self.units or width
        gates = 2 if self.kind == "agru" else 3  # reset, candidate state, update
        self.kernel = self.add_weight(
            shape=(width, gates * self.size), initializer=blockwise(gates, axis=1), name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.size, gates * self.size),
            initializer=blockwise(gates, axis=1, initializer="orthogonal"),
            name="recurrent_kernel",
        )
        self.bias = self.add_weight(shape=(gates * self.size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, inputs: Tensor, weights: Tensor, present: Tensor | None = None) -> Tensor:
        require_mask_of("present", present, inputs)
        projected = ops.matmul(inputs, self.kernel)
        weights = ops.cast(weights, projected.dtype)
        if present is None:
            present = ops.ones(ops.shape(inputs)[:2], "bool")
        recurrent = ops.cast(self.recurrent_kernel, projected.dtype)
        bias = ops.cast(self.bias, projected.dtype)
        gates = self.bias.shape[0] // self.size
        if self.kind != "aigru":  # its input is scaled first
            projected = projected + bias

        def step(state: Tensor, event: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            new, weight, is_present = event
            new = new * weight + bias if self.kind == "aigru" else new
            # Not `matmul`: XLA cannot compile the gradient of its form for three axes in a loop.
            old = ops.einsum("btu,ug->btg", state, recurrent)
            # One split instead of slices: the gradient of each slice is a tensor of the full size,
            # that of a split is one concatenation.
            new, old = (ops.split(x, gates, axis=-1) for x in (new, old))
            reset = ops.sigmoid(new[0] + old[0])
            candidate = ops.tanh(new[1] + reset * old[1])
            share = weight
            if self.kind != "agru":
                update = ops.sigmoid(new[2] + old[2])
                share = weight * update if self.kind == "augru" else update
            return state + ops.where(is_present, share, ops.zeros_like(share)) * (candidate - state)

        events = (
            ops.moveaxis(projected, 1, 0)[:, :, None],  # (S, B, 1, gates U)
            ops.moveaxis(weights, 2, 0)[..., None],  # (S, B, T, 1)
            ops.transpose(ops.cast(present, "bool"))[..., None, None],
        )
        batch, candidates, _ = ops.shape(weights)
        first = ops.zeros((batch, candidates, self.size), projected.dtype)
        return last_state(step, first, events)

    def compute_output_spec(
        self, inputs: Tensor, weights: Tensor, present: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        shape = (*weights.shape[:2], self.units or inputs.shape[-1])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)
