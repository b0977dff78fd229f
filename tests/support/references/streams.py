"""XLNet's two streams, one pair of a query and a key at a time, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.references import blocks
from tests.support.references.scores import dot, relative_dot

Array = np.ndarray


def named(layer: Any) -> dict[str, Array]:
    """The weights of a layer and its parts by their names, which differ, in float64."""
    weights = {w.name: np.asarray(w, "float64") for w in layer.weights}
    assert len(weights) == len(layer.weights)
    return weights


def attended(
    layer: Any, query: Array, keys: Array, allowed: Array, rows: Array, segments: Array
) -> Array:
    """One example: queries (T, E) at `rows`, keys (S, E) at 0 ..., pairs (T, S), segments (S,)."""
    weights, heads, size = named(layer), layer.attention.num_heads, layer.attention.head_dim
    content = dot(weights["query_bias"], scale=True)
    place = relative_dot(weights["kernel"], weights["position_bias"], max_distance=99, scale=True)
    q, k, v = (
        (x @ weights[f"{name}_kernel"]).reshape(-1, heads, size)
        for x, name in ((query, "query"), (keys, "key"), (keys, "value"))
    )
    output = np.zeros((len(query), heads, size))
    for t, n in np.ndindex(len(query), heads):
        seen = np.flatnonzero(allowed[t])
        if not len(seen):
            continue
        i = int(rows[t])
        logits = []
        for s in seen:
            of_segment = weights["segments"][0 if segments[s] == segments[i] else 1, n]
            segment = (q[t, n] + weights["segment_bias"][n]) @ of_segment / np.sqrt(size)
            pair = q[t, n], k[s, n], n, i, int(s)
            logits.append(content(*pair) + place(*pair) + segment)
        shares = np.exp(np.array(logits) - max(logits))
        output[t, n] = shares / shares.sum() @ v[seen, n]
    return output.reshape(len(query), -1) @ weights["output_kernel"]


def two_streams(
    layer: Any, x: Array, memory: Array, ranks: Array, segments: Array
) -> tuple[Array, Array]:
    """One example: x (S, E), the memory of each block (L, M, E), ranks (S,), segments (M + S,)."""
    before = memory.shape[1]
    rows = before + np.arange(len(x))
    content, query = x, np.tile(np.asarray(layer.start, "float64"), (len(x), 1))
    for block, states in zip(layer.encoder.blocks, memory, strict=True):
        keys = np.concatenate([states, content])
        streams = []
        for stream, itself in ((content, True), (query, False)):
            allowed = np.ones((len(x), len(keys)), bool)
            for t, s in np.ndindex(len(x), len(x)):
                earlier = ranks[s] <= ranks[t] if itself else ranks[s] < ranks[t]
                allowed[t, before + s] = earlier
            update = attended(block.attention, stream, keys, allowed, rows, segments)
            hidden = blocks.sublayer(block.sublayers[0], stream, lambda _, u=update: u)
            network = block.feed_forward.get_weights()
            streams.append(
                blocks.sublayer(
                    block.sublayers[1], hidden, lambda x, w=network: blocks.feed_forward(w, x)
                )
            )
        content, query = streams
    return content, query
