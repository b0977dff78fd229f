"""Attention to a context: the keys of the context stand beside those of the sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import (
    Dense,
    Linear,
    MultiHeadAttention,
    Recurrence,
    SegmentAttention,
    dense_weights,
    prune_heads,
)
from recsys_attn.attention.patterns import Causal, Local
from recsys_attn.blocks import RecurrentMixer, TransformerBlock, TransformerEncoder
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

B, S, M, E, C, N, H = 2, 7, 3, 5, 11, 4, 2
RNG = np.random.default_rng(0)
EVENTS = RNG.normal(size=(B, S, E)).astype("float32")
CONTEXT = RNG.normal(size=(B, M, C)).astype("float32")
PRESENT = np.arange(S) < np.array([[S], [4]])
KNOWN = np.array([[True, True, False], [False, True, True]])
PAIRS = RNG.random((B, S, S)) < 0.7
BIAS = RNG.normal(size=(B, S, S)).astype("float32")


def attention(mechanism: Any = "transformer", **options: Any) -> Any:
    layer = MultiHeadAttention([N, 2], H, mechanism, **options)
    layer(EVENTS, context=CONTEXT)
    randomise(layer)
    return layer


def projected(layer: Any) -> list[np.ndarray]:
    """Q (B, S, N, H), then K and V (B, M + S, N, H) of the context and the events, in float64."""
    values = {w.path.split("/", 1)[-1]: np.asarray(w, "float64") for w in layer.weights}

    def heads(x: np.ndarray, name: str, count: int) -> np.ndarray:
        found = x @ values[f"{name}_kernel"] + values[f"{name}_bias"]
        return np.repeat(found.reshape(*x.shape[:2], count, H), N // count, axis=2)

    context = next(name for name in values if "context_heads" in name).rpartition("/")[0]
    both = [
        np.concatenate([heads(CONTEXT, f"{context}/{name}", 2), heads(EVENTS, name, 2)], axis=1)
        for name in ("key", "value")
    ]
    return [heads(EVENTS, "query", N), *both]


def joined(layer: Any, output: np.ndarray) -> np.ndarray:
    values = {w.path.split("/", 1)[-1]: np.asarray(w, "float64") for w in layer.weights}
    flat = output.reshape(B, S, N * H)
    return flat @ values["output_kernel"] + values["output_bias"]


def reference(layer: Any, distance: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """`softmax(Q [C U_K; K]^T / sqrt(H) + bias) [C U_V; V]`, event by event."""
    query, key, value = projected(layer)
    output = np.zeros((B, S, N, H))
    for b, t, n in np.ndindex(B, S, N):
        logits = key[b, :, n] @ query[b, t, n] / np.sqrt(H)
        logits[M:] += BIAS[b, t] - distance[n] * np.abs(t - np.arange(S))
        allowed = np.concatenate([KNOWN[b], PRESENT[b] & PAIRS[b, t] & seen[t]])
        if PRESENT[b, t] and allowed.any():
            weights = np.exp(logits - logits[allowed].max()) * allowed
            output[b, t, n] = weights / weights.sum() @ value[b, :, n]
    return joined(layer, output)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("score", ["scaled_dot", "alibi"])
@pytest.mark.parametrize("pattern", [None, Causal(), Local(1)])
def test_pseudo_self_attention_is_that_of_the_paper(score: str, pattern: Any) -> None:
    """Whatever the pattern; positions in the score put the context at the place of each query."""
    parts = {"class_name": "sum", "config": {"scores": ["scaled_dot", "alibi"]}}
    layer = attention(Dense(parts if score == "alibi" else score, pattern))
    slopes = next((np.asarray(w) for w in layer.weights if w.name == "slopes"), np.zeros(N))
    seen = np.ones((S, S), bool) if pattern is None else pattern.matrix(S)[0]
    masks = {"query_mask": PRESENT, "attention_mask": PAIRS, "attention_bias": BIAS}
    found = layer(EVENTS, context=CONTEXT, context_mask=KNOWN, **masks)
    assert_close(found, reference(layer, slopes, seen))


@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_linear_attention_begin_with_the_context(causal: bool) -> None:
    layer = attention(Linear("elu", causal=causal))
    query, key, value = projected(layer)
    query, key = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (query, key))
    allowed = np.concatenate([KNOWN, PRESENT], axis=1)
    output = np.zeros((B, S, N, H))
    for b, t, n in np.ndindex(B, S, N):
        last = M + t + 1 if causal else M + S
        weights = (key[b, :last, n] @ query[b, t, n]) * allowed[b, :last]
        output[b, t, n] = PRESENT[b, t] * (weights @ value[b, :last, n]) / weights.sum()
    found = layer(EVENTS, context=CONTEXT, context_mask=KNOWN, query_mask=PRESENT)
    assert_close(found, joined(layer, output))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "mechanism",
    [
        *("transformer_xl", "t5", "rotary", "hstu", "talking_heads", "efficient_attention"),
        Dense({"class_name": "sum", "config": {"scores": ["dot", "time_intervals"]}}, Causal()),
        Linear("elu", causal=True),
    ],
)
def test_a_missing_context_is_none(mechanism: Any) -> None:
    layer = attention(mechanism)
    plain = type(layer).from_config(layer.get_config())
    expected = plain(EVENTS, query_mask=PRESENT)
    kept = [w for w in layer.weights if "context_heads" not in w.path]
    plain.set_weights([np.asarray(w) for w in kept])
    expected = plain(EVENTS, query_mask=PRESENT)
    nothing = np.zeros((B, M), bool)
    found = layer(EVENTS, context=CONTEXT, context_mask=nothing, query_mask=PRESENT)
    assert_close(found, expected)
    assert np.abs(np.asarray(layer(EVENTS, context=CONTEXT)) - np.asarray(expected)).max() > 1e-3


def test_weights_begin_with_those_of_the_context() -> None:
    layer = attention("rotary")
    _, weights = layer(EVENTS, context=CONTEXT, return_weights=True)
    assert dense_weights(weights, S, M + S).shape == (B, N, S, M + S)
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1, rtol=1e-5)


def test_pruned_heads_keep_their_context() -> None:
    layer = attention(gate="hard_concrete")
    layer.heads.gate.log_alpha.assign([9.0, -9.0, -9.0, 9.0])
    smaller = prune_heads(layer)
    assert smaller.num_heads == 2
    assert_close(smaller(EVENTS, context=CONTEXT), layer(EVENTS, context=CONTEXT))


def test_a_pruned_encoder_is_built_like_the_whole_one() -> None:
    part = MultiHeadAttention(N, H, gate="hard_concrete")
    encoder = TransformerEncoder([TransformerBlock(part, norm="conditional")])
    given = {"context": CONTEXT, "condition": CONTEXT[:, 0]}
    encoder(EVENTS, **given)
    part.heads.gate.log_alpha.assign([9.0, -9.0, -9.0, 9.0])
    assert_close(prune_heads(encoder)(EVENTS, **given), encoder(EVENTS, **given))


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("longformer", "Routed cannot attend a context"),
        ("linformer", "Compressed cannot attend a context"),
        ("retention", "Linear cannot attend a context"),
        ("local_p", "Gaussian counts the keys"),
        (Dense("shared_dot"), "one projection for queries and keys"),
        ("synthesizer", "does not look at the keys"),
    ],
)
def test_a_mechanism_without_place_for_a_context(mechanism: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        MultiHeadAttention(2, H, mechanism)(EVENTS, context=CONTEXT)


@pytest.mark.parametrize(
    "part", [RecurrentMixer(), SegmentAttention(MultiHeadAttention(2, H, "xlnet"))]
)
def test_a_block_whose_attention_takes_no_context(part: Any) -> None:
    with pytest.raises(TypeError, match="`context` needs an attention that takes context"):
        TransformerBlock(part)(EVENTS, context=CONTEXT)


def test_a_context_is_given_each_time() -> None:
    layer = MultiHeadAttention(2, H, Dense(pattern="causal"))
    layer(EVENTS, context=CONTEXT)
    with pytest.raises(ValueError, match="built with a `context`"):
        layer(EVENTS)
    with pytest.raises(TypeError, match="built with a `context`"):
        Recurrence(layer).initial_state(B)
    layer = MultiHeadAttention(2, H)
    layer(EVENTS)
    with pytest.raises(ValueError, match="built without a `context`"):
        layer(EVENTS, context=CONTEXT)
    with pytest.raises(ValueError, match="give both"):
        layer(EVENTS, context_mask=KNOWN)
