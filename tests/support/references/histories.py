"""Recurrences, blocks and target attention over one history, from their equations, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.references.blocks import norm, sigmoid
from tests.support.references.streams import named

Array = np.ndarray
Step = Callable[[Array, Array], Array]


def randomise(layer: Any, seed: int = 1) -> None:
    """Weights that no initializer makes, biases and norms included."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(0, 0.6, weight.shape))


def attentional_gru(layer: Any, events: Array, weights: Array) -> Array:
    """The last state of DIEN's recurrences: events (S, E) that are present, weights (S,)."""
    own, size = named(layer), layer.size
    w, u, b = ((own[name]) for name in ("kernel", "recurrent_kernel", "bias"))
    reset, new, update = (slice(i * size, (i + 1) * size) for i in range(3))
    state = np.zeros(size)
    for event, a in zip(events, weights, strict=True):
        i = a * event if layer.kind == "aigru" else event
        r = sigmoid(i @ w[:, reset] + state @ u[:, reset] + b[reset])
        candidate = np.tanh(i @ w[:, new] + r * (state @ u[:, new]) + b[new])
        share = a
        if layer.kind != "agru":
            share = sigmoid(i @ w[:, update] + state @ u[:, update] + b[update])
        if layer.kind == "augru":
            share = a * share
        state = (1 - share) * state + share * candidate
    return state


def lstm(layer: Any, x: Array) -> Array:
    """The states of Keras' LSTM, (S, U)."""
    cell, states = layer.cell, []
    w, u, b = (
        np.asarray(each, "float64") for each in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )
    state = memory = np.zeros(layer.units)
    for event in x:
        i, f, c, o = np.split(event @ w + state @ u + b, 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(c)
        state = sigmoid(o) * np.tanh(memory)
        states.append(state)
    return np.array(states)


def both_directions(layer: Any, x: Array) -> Array:
    return np.concatenate([lstm(layer.forward, x), lstm(layer.backward, x[::-1])[::-1]], axis=1)


def softmax(logits: Array) -> Array:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def bilinear_weights(attention: Any, query: Array, keys: Array) -> Array:
    """`softmax_s(q W k_s)` of a `TargetAttention` with the score `General`: queries (T, K)."""
    (kernel,) = (np.asarray(w, "float64") for w in attention.weights)
    return softmax(query @ kernel[0] @ keys.T)


def multi_head(layer: Any, x: Array) -> tuple[Array, Array]:
    """The outputs (S, E) of `MultiHeadAttention`, and its weights (N, S, S)."""
    own, heads = named(layer), layer.num_heads
    q, k, v = (
        (x @ own[f"{name}_kernel"] + own[f"{name}_bias"]).reshape(len(x), heads, -1)
        for name in ("query", "key", "value")
    )
    weights = softmax(np.einsum("tnh,snh->nts", q, k) / np.sqrt(q.shape[-1]))
    output = np.einsum("nts,snv->tnv", weights, v).reshape(len(x), -1)
    return output @ own["output_kernel"] + own["output_bias"], weights


def post_norm_block(block: Any, x: Array, activation: Step) -> tuple[Array, Array]:
    """The outputs (S, E) of a `TransformerBlock`, and the weights (N, S, S)."""
    norms = [norm("layer", each.norms[0].get_weights()) for each in block.sublayers]
    update, weights = multi_head(block.attention, x)
    x = norms[0](x + update)
    w1, b1, w2, b2 = (np.asarray(w, "float64") for w in block.feed_forward.get_weights())
    return norms[1](x + activation(x @ w1 + b1) @ w2 + b2), weights
