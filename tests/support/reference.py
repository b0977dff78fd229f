"""What the layers compute, slowly and obviously: loops in float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


def dot(query: Array, key: Array, scale: bool = False) -> Array:
    """(B, T, N, H), (B, S, N, H) -> (B, N, T, S), one pair at a time."""
    batch, queries, heads, size = query.shape
    logits = np.zeros((batch, heads, queries, key.shape[1]))
    for b, n, t, s in np.ndindex(logits.shape):
        logits[b, n, t, s] = np.dot(query[b, t, n], key[b, s, n]) / (np.sqrt(size) if scale else 1)
    return logits


def activation_unit_inputs(query: Array, key: Array) -> Array:
    """DIN's `[q, k, q - k, q * k]` of every pair: (B, N, T, S, 4H)."""
    batch, queries, heads, size = query.shape
    blocks = np.zeros((batch, heads, queries, key.shape[1], 4 * size))
    for b, n, t, s in np.ndindex(blocks.shape[:-1]):
        q, k = query[b, t, n], key[b, s, n]
        blocks[b, n, t, s] = np.concatenate([q, k, q - k, q * k])
    return blocks


def activation_unit(query: Array, key: Array, weights: Sequence[Array]) -> Array:
    """Logits of DIN's network of ReLUs on the blocks of every pair: (B, N, T, S)."""
    hidden = activation_unit_inputs(query, key)
    *inner, kernel, bias = weights
    for inner_kernel, inner_bias in zip(inner[::2], inner[1::2], strict=True):
        hidden = relu(hidden @ inner_kernel + inner_bias)
    return (hidden @ kernel + bias)[..., 0]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def dice(x: Array, alpha: Array, mean: Array, variance: Array, epsilon: float = 1e-8) -> Array:
    """The formula of the paper, one number at a time."""
    output = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        s, c = x[index], index[-1]
        p = 1 / (1 + np.exp(-(s - mean[c]) / np.sqrt(variance[c] + epsilon)))
        output[index] = p * s + (1 - p) * alpha[c] * s
    return output


def statistics(x: Array, where: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance of each channel over the rows that are real."""
    rows = [x[index] for index in np.ndindex(x.shape[:-1]) if where is None or where[index]]
    return np.mean(rows, axis=0), np.var(rows, axis=0)


def softmax(logits: Sequence[float]) -> Array:
    exponentials = np.exp(np.asarray(logits) - np.max(logits))
    return exponentials / exponentials.sum()


def softmax_weights(logits: Array, allowed: Array | None = None) -> Array:
    """Over the last axis and the entries that are allowed; zeros where none is."""
    weights = np.zeros(logits.shape)
    for index in np.ndindex(logits.shape[:-1]):
        chosen = np.ones(logits.shape[-1], bool) if allowed is None else allowed[index]
        if chosen.any():
            weights[index][chosen] = softmax(logits[index][chosen])
    return weights


def identity_weights(logits: Array, allowed: Array | None = None) -> Array:
    return np.where(True if allowed is None else allowed, logits, 0.0)


def weighted_sums(weights: Array, value: Array) -> Array:
    """(B, N, T, S), (B, S, N, V) -> (B, T, N, V)."""
    batch, heads, queries, _ = weights.shape
    output = np.zeros((batch, queries, heads, value.shape[-1]))
    for b, n, t, s in np.ndindex(weights.shape):
        output[b, t, n] += weights[b, n, t, s] * value[b, s, n]
    return output


def interacting_layer(
    fields: Array,
    kernels: Sequence[Array],
    num_heads: int,
    scale: bool = False,
    field_mask: Array | None = None,
) -> Array:
    """AutoInt's layer for one example: (F, E), and W_Q, W_K, W_V and perhaps W_Res (E, N * H)."""
    count, size = len(fields), kernels[0].shape[1] // num_heads
    present = np.ones(count, bool) if field_mask is None else field_mask
    output = np.zeros((count, kernels[2].shape[1]))
    for m in range(count):
        for head in range(num_heads):
            columns = slice(head * size, (head + 1) * size)
            query_kernel, key_kernel = (kernel[:, columns] for kernel in kernels[:2])
            value_size = kernels[2].shape[1] // num_heads
            columns = slice(head * value_size, (head + 1) * value_size)
            value_kernel = kernels[2][:, columns]
            scores = np.array(
                [
                    np.dot(fields[m] @ query_kernel, fields[k] @ key_kernel)
                    / (np.sqrt(size) if scale else 1)
                    for k in range(count)
                ]
            )
            weights = softmax_weights(scores[None], present[None])[0]
            for k in range(count):
                output[m, columns] += weights[k] * (fields[k] @ value_kernel)
        if len(kernels) == 4:
            output[m] += fields[m] @ kernels[3]
    return relu(output) * present[:, None]


def mixture(
    x: Array,
    kernels: Sequence[Array],
    biases: Sequence[Array],
    logits: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """MMoE for one example: ReLU experts, and gates from the logits (T, E) of their outputs."""
    experts = []
    for expert in range(len(kernels[0])):
        hidden = x
        for kernel, bias in zip(kernels, biases, strict=True):
            hidden = relu(hidden @ kernel[expert] + bias[expert].reshape(-1))
        experts.append(hidden)
    gates = np.array([softmax(row) for row in logits(np.array(experts))])
    output = np.array([sum(gate[e] * experts[e] for e in range(len(experts))) for gate in gates])
    return output, gates
