"""Parts of Transformer blocks from their equations, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Function = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def attention(x: Array, present: Array, keys: Array | None = None, allowed: Any = None) -> Array:
    """Scaled dot product attention of one head without projections, row by row.

    Args:
        x: (B, S, E).
        present: (B, S) of the queries.
        keys: (B, K, E); the queries if it is None.
        allowed: (B, S, K), the pairs that may meet; all keys that are present if it is None.
    """
    keys = x if keys is None else keys
    allowed = np.repeat(present[:, None], x.shape[1], axis=1) if allowed is None else allowed
    output = np.zeros_like(x)
    for b, t in np.argwhere(present):
        others = keys[b, allowed[b, t]]
        if len(others):
            logits = others @ x[b, t] / np.sqrt(x.shape[-1])
            weights = np.exp(logits - logits.max())
            output[b, t] = weights / weights.sum() @ others
    return output


def norm(kind: str, weights: list[Array], epsilon: float = 1e-6) -> Function:
    """Layer normalisation, RMS normalisation, or none."""

    def apply(x: Array) -> Array:
        if kind == "none":
            return x
        if kind == "rms":
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weights[0]
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weights[0] + weights[1]

    return apply


def gru_gate(x: Array, update: Array, weights: list[Array]) -> Array:
    of_update, of_inputs, of_state, bias = weights
    w_r, w_z, w_g = np.split(of_update, 3, axis=1)
    u_r, u_z = np.split(of_inputs, 2, axis=1)
    y = np.maximum(update, 0)
    r = sigmoid(y @ w_r + x @ u_r)
    z = sigmoid(y @ w_z + x @ u_z - bias)
    new = np.tanh(y @ w_g + (r * x) @ of_state)
    return (1 - z) * x + z * new


def residual(kind: str, weights: list[Array], sublayers: int) -> Callable[[Array, Array], Array]:
    """How `x` meets `F(x)` in a stack of so many sublayers."""
    return {
        "plain": lambda x, update: x + update,
        "tfixup": lambda x, update: x + update,
        "rezero": lambda x, update: x + weights[0] * update,
        "gated": lambda x, update: x + sigmoid(x @ weights[0]) * update,
        "deepnorm": lambda x, update: sublayers**0.25 * x + update,
        "gru": lambda x, update: gru_gate(x, update, weights),
    }[kind]


def sublayer(layer: Any, x: Array, function: Function, sublayers: int = 2) -> Array:
    """Applies a function with the norms, the placement and the residual of a `Sublayer`."""
    norms = [norm(layer.norm, each.get_weights()) for each in layer.norms]
    join = residual(layer.residual_config, layer.residual.get_weights(), sublayers)
    if layer.placement == "post":
        return norms[0](join(x, function(x)))
    if layer.placement == "sandwich":
        return join(x, norms[1](function(norms[0](x))))
    return join(x, function(norms[0](x)))


def feed_forward(weights: list[Array], x: Array) -> Array:
    hidden_kernel, hidden_bias, kernel, bias = weights
    return np.maximum(x @ hidden_kernel + hidden_bias, 0) @ kernel + bias
