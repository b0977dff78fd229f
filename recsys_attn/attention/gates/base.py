"""The registry of gates, and their common check."""

from __future__ import annotations

from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape

GATES = Registry(
    "a gate",
    "gates",
    call=("heads", "inputs"),
    hint="The heads are (B, T, N, V); the inputs, from which the queries are made, (B, T, E)",
)


def require_known_heads(heads_shape: Shape) -> None:
    """Raises unless the shape has a known number of heads."""
    if len(heads_shape) != 4 or heads_shape[2] is None:
        raise ValueError(
            "`heads` must have shape (B, T, N, V) with N known when the gate is built. "
            f"Received: heads.shape={tuple(heads_shape)}"
        )
