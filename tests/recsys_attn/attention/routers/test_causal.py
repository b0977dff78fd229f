"""Causal forms of routers by content: loops, causal `Dense` in the limit, and no leak at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import dense_weights, patterns, presets
from recsys_attn.attention.mechanisms import Dense, Lookup, Routed
from recsys_attn.attention.routers import KMeans, Lsh, Sinkhorn
from tests.support import reference
from tests.support.arrays import assert_close, numpy
from tests.support.heads import EVERYTHING, KEY, KEY_MASK, VALUE, B, H, N, S
from tests.support.heads import SELF as QUERY
from tests.support.heads import self_output as output_of
from tests.support.references import routers as loops
from tests.support.refusals import refusals

RNG = np.random.default_rng(0)
PADDED = {"query_mask": KEY_MASK, "key_mask": KEY_MASK}
masked = pytest.mark.parametrize("masks", [{}, PADDED], ids=["no masks", "all masks"])
Make = Callable[[], Any]
ROUTERS: dict[str, Make] = {
    "lsh": lambda: Lsh(3, buckets=2, rounds=1, causal=True),
    "lsh, rounds": lambda: Lsh(4, buckets=4, rounds=3, causal=True),
    "k-means": lambda: KMeans(3, window=4, causal=True),
    "sinkhorn": lambda: Sinkhorn(4, length=31, iterations=5, causal=True),
}


def bucket_pairs(layer: Routed, real: np.ndarray) -> np.ndarray:
    """Which pairs meet in any round: (B, N, S, S)."""
    (weights,) = layer.get_weights()
    pairs = np.zeros((B, N, S, S), bool)
    for b, n in np.ndindex(B, N):
        key = KEY[b, :, n].astype("float64")
        if isinstance(layer.router, Lsh):
            rounds = [
                [int(np.argmax([*(x @ r), *(-x @ r)])) for x in key]
                for r in np.split(weights[n], layer.router.rounds, axis=1)
            ]
        else:
            units = weights[n] / np.linalg.norm(weights[n], axis=1, keepdims=True)
            rounds = [[int(np.argmax(units @ loops.normalised(x))) for x in key]]
        window = layer.router.size if isinstance(layer.router, Lsh) else layer.router.window
        for buckets in rounds:
            pairs[b, n] |= loops.causal_bucket_pairs(buckets, window, real[b])
    return pairs


@pytest.mark.sampled(3)
@masked
@pytest.mark.parametrize("name", ["lsh", "lsh, rounds", "k-means"])
def test_a_token_attends_the_last_of_its_bucket(name: str, masks: dict[str, Any]) -> None:
    layer = Routed(ROUTERS[name](), "scaled_dot")
    output = output_of(layer, **masks)
    pairs = bucket_pairs(layer, masks.get("key_mask", EVERYTHING))
    assert_close(output, loops.attended(reference.dot(QUERY, KEY, scale=True), pairs, VALUE))


@pytest.mark.sampled(3)
@masked
@pytest.mark.parametrize("size", [4, 12, 64])
def test_sinkhorn_sorts_earlier_blocks(size: int, masks: dict[str, Any]) -> None:
    layer = Routed(Sinkhorn(size, iterations=5, temperature=0.9, length=31, causal=True))
    output = output_of(layer, **masks)
    real = masks.get("key_mask", EVERYTHING)
    for b, n in np.ndindex(B, N):
        kernels = tuple(weight[n].astype("float64") for weight in layer.get_weights())
        inputs = (x[b, :, n].astype("float64") for x in (QUERY, KEY, VALUE))
        expected = loops.sinkhorn(*inputs, kernels, size, real[b], 5, 0.9, causal=True)
        if masks:
            expected = expected * real[b][:, None]
        np.testing.assert_allclose(output[b, :, n], expected, rtol=1e-3, atol=1e-4)


LIMITS: dict[str, tuple[Make, str]] = {
    "lsh": (lambda: Lsh(S, buckets=1, rounds=2, causal=True), "shared_dot"),
    "k-means": (lambda: KMeans(1, window=S + 3, causal=True), "shared_dot"),
    "sinkhorn": (lambda: Sinkhorn(S, causal=True), "scaled_dot"),
}


@masked
@pytest.mark.parametrize("name", LIMITS)
def test_the_limit_is_a_causal_dense(name: str, masks: dict[str, Any]) -> None:
    make, score = LIMITS[name]
    layer = Routed(make())
    assert layer.is_causal
    assert_close(output_of(layer, **masks), output_of(Dense(score, "causal"), **masks))


def weights_of(layer: Routed, length: int, key: np.ndarray) -> np.ndarray:
    """Weights of the first tokens, of queries that do not change."""
    _, weights = layer(QUERY[:, :length], key, VALUE[:, :length], return_weights=True)
    return numpy(dense_weights(weights, length, length))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ROUTERS)
def test_no_pair_of_the_past_depends_on_the_future(name: str) -> None:
    """Whatever follows, and however much of it: the same keys, and the same weights."""
    layer = Routed(ROUTERS[name](), "scaled_dot")
    whole = weights_of(layer, S, KEY)
    np.testing.assert_array_equal(whole[:, :, ~np.tri(S, dtype=bool)], 0)
    for length in (1, 6, 13, 22):
        key = KEY.copy()
        key[:, length:] = 1e3 * RNG.normal(size=key[:, length:].shape)
        for found in (
            weights_of(layer, S, key),
            weights_of(layer, length, KEY[:, :length]),
        ):
            past, expected = (x[:, :, :length, :length] for x in (found, whole))
            np.testing.assert_array_equal(past != 0, expected != 0)
            np.testing.assert_allclose(past, expected, rtol=1e-4, atol=1e-6)


def test_borders_of_chunks_would_leak() -> None:
    """With the paper's chunks under a causal mask, later tokens decide which earlier ones meet."""
    rotation = [np.random.default_rng(0).normal(size=(H, 2))]
    key, real, past = KEY[0, :, 0], np.ones(S, bool), np.tri(S, dtype=bool)
    found = []
    for seed in range(20):
        later = np.random.default_rng(seed).normal(size=(S - 15, H))
        pairs = loops.lsh_pairs(np.concatenate([key[:15], later]), rotation, 3, real) & past
        found.append(pairs[:15, :15])
    assert any((each != found[0]).any() for each in found)


@pytest.mark.parametrize("router", [ROUTERS["lsh"], ROUTERS["k-means"]])
def test_a_causal_router_takes_a_pattern(router: Make) -> None:
    layer = Routed(router(), "scaled_dot", patterns.Local(5, 0))
    pairs = bucket_pairs_of(layer)
    window = patterns.Local(5, 0).matrix(S)
    expected = loops.attended(reference.dot(QUERY, KEY, scale=True), pairs & window, VALUE)
    assert_close(output_of(layer), expected)


def bucket_pairs_of(layer: Routed) -> np.ndarray:
    output_of(layer)
    return bucket_pairs(layer, EVERYTHING)


def test_centroids_of_the_causal_form_follow_the_keys() -> None:
    layer = Routed(KMeans(4, 6, decay=0.7, causal=True))
    output_of(layer, **PADDED)
    (before,) = layer.get_weights()
    output_of(layer, **PADDED, training=True)
    for n in range(N):
        expected = loops.moved_centroids([(KEY[:, :, n], KEY_MASK)], before[n], decay=0.7)
        assert_close(layer.get_weights()[0][n], expected)


@pytest.mark.parametrize("name", ["reformer", "routing_transformer", "sinkhorn"])
def test_presets_are_causal_by_name(name: str) -> None:
    mechanism = presets.get({"class_name": name, "config": {"causal": True}})
    assert mechanism.is_causal
    assert mechanism.router.causal
    with pytest.raises(ValueError, match=r"causal=True .* is self-attention"):
        mechanism.as_cross_attention()


test_wrong_use_is_refused = refusals(
    (lambda: Lookup(Lsh(causal=True)), "the queries of a Lookup come from elsewhere"),
    (lambda: Lsh(causal="yes"), "`causal` must be True or False"),
    (lambda: KMeans(2, 3, causal=1), "`causal` must be True or False"),
    (lambda: Sinkhorn(causal=None), "`causal` must be True or False"),
)
