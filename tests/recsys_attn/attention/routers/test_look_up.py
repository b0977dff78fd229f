"""What each router brings a query from elsewhere: loops, and `Dense` in the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import patterns
from recsys_attn.attention.mechanisms import Dense, Lookup
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Sinkhorn
from recsys_attn.serialization import serialize
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.heads import (
    EVERYTHING,
    KEY,
    KEY_MASK,
    QUERY,
    QUERY_MASK,
    VALUE,
    B,
    N,
    S,
    T,
    V,
    output_of,
)
from tests.support.references import retrieved as loops
from tests.support.references.routers import attended

RNG = np.random.default_rng(0)
# Every query stands right after the last key that is present, by default.
AFTER = np.array([[np.flatnonzero(row)[-1] + 1] * T for row in KEY_MASK])
IN_ORDER = np.tile(np.arange(S), (B, 1))
SHUFFLED = np.array([RNG.permutation(S) for _ in range(B)])
masked = pytest.mark.parametrize("mask", [EVERYTHING, KEY_MASK], ids=["no mask", "mask"])


def retrieved(router: Any) -> Lookup:
    return Lookup(router, "scaled_dot")


def each_head(found: Callable[..., np.ndarray]) -> np.ndarray:
    """What is found for each row and head: (B, N, T, S)."""
    rows = [[found(b, n, QUERY[b, :, n], KEY[b, :, n]) for n in range(N)] for b in range(B)]
    return np.array(rows)


def assert_finds(layer: Lookup, found: Callable[..., np.ndarray], **kwargs: Any) -> None:
    """Holds a layer against the softmax over what loops find."""
    output = output_of(layer, **kwargs)
    logits = reference.dot(QUERY, KEY, scale=True)
    assert_close(output, attended(logits, each_head(found), VALUE))


@pytest.mark.parametrize(
    ("size", "buckets", "rounds", "positions", "mask"),
    [
        (4, 2, 1, IN_ORDER, EVERYTHING),
        (4, 2, 1, SHUFFLED, KEY_MASK),
        (3, 6, 2, SHUFFLED, KEY_MASK),
        (2, 2, 5, IN_ORDER, KEY_MASK),
        (64, 4, 3, SHUFFLED, EVERYTHING),
    ],
)
def test_lsh_finds_the_last_of_the_bucket_in_each_round(
    size: int, buckets: int, rounds: int, positions: np.ndarray, mask: np.ndarray
) -> None:
    layer = retrieved(Lsh(size, buckets, rounds))
    output_of(layer)
    (rotations,) = layer.get_weights()

    def found(b: int, n: int, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        parts = np.split(rotations[n], rounds, axis=1)
        return loops.lsh(query, key, parts, size, mask[b], positions[b])

    assert_finds(layer, found, key_mask=mask, key_positions=positions)


@pytest.mark.sampled(3)
@masked
@pytest.mark.parametrize(("clusters", "window"), [(1, 4), (5, 3), (2, 99)])
def test_k_means_finds_the_nearest_cluster(clusters: int, window: int, mask: np.ndarray) -> None:
    layer = retrieved(KMeans(clusters, window))
    output_of(layer)
    (centroids,) = layer.get_weights()
    assert_finds(
        layer,
        lambda b, n, query, key: loops.k_means(query, key, centroids[n], window, mask[b]),
        key_mask=mask,
    )


WITH_GAPS = 3 * SHUFFLED - 5


@pytest.mark.parametrize(
    ("options", "positions", "mask"),
    [
        ({"before": 2, "after": 1}, IN_ORDER, EVERYTHING),
        ({"before": 2, "after": 1}, WITH_GAPS, KEY_MASK),
        ({"before": 1, "after": 0, "first": 2}, SHUFFLED, KEY_MASK),
        ({"before": 0, "after": 2, "last": 1}, WITH_GAPS, KEY_MASK),
        ({"before": 9, "first": 1, "last": 1, "random": 3, "seed": 5}, IN_ORDER, KEY_MASK),
        ({"before": 9, "first": 1, "last": 1, "random": 3, "seed": 5}, WITH_GAPS, KEY_MASK),
        ({"first": 4, "last": 5, "random": 9}, SHUFFLED, EVERYTHING),
    ],
)
def test_blocks_are_found_by_position(
    options: dict[str, int], positions: np.ndarray, mask: np.ndarray
) -> None:
    router = Blocks(4, **options)
    rows = np.array([[0, 9, S], [-3, S - 1, S + 6]])
    assert_finds(
        retrieved(router),
        lambda b, n, *_: loops.blocks(
            rows[b],
            positions[b],
            router.size,
            router.before,
            router.after,
            (router.first, router.last),
            (router.random, router.seed),
            mask[b],
        ),
        key_mask=mask,
        query_positions=rows,
        key_positions=positions,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [4, 12, 64])
@pytest.mark.parametrize(
    "mask", [EVERYTHING, KEY_MASK, np.arange(S) >= np.array([[9], [S]])], ids=["no", "some", "left"]
)
def test_sinkhorn_finds_the_first_sorted_block(size: int, mask: np.ndarray) -> None:
    layer = retrieved(Sinkhorn(size, iterations=5, temperature=0.9, length=31))
    output = output_of(layer, key_mask=mask)
    for b, n in np.ndindex(B, N):
        kernels = [weight[n].astype("float64") for weight in layer.get_weights()]
        query, key, value = (x[b, :, n].astype("float64") for x in (QUERY, KEY, VALUE))
        expected = loops.first_sorted_block(query, key, value, kernels, size, mask[b], 5, 0.9)
        np.testing.assert_allclose(output[b, :, n], expected, rtol=1e-3, atol=1e-4)


LIMITS = {
    "one bucket": (Lsh(S, buckets=1), "shared_dot", None),
    "one bucket, more rounds": (Lsh(64, buckets=1, rounds=3), "scaled_dot", None),
    "one cluster": (KMeans(1, S), "scaled_dot", None),
    "one block that is sorted": (Sinkhorn(S), "scaled_dot", None),
    "all blocks": (Blocks(4, 6, 6), "alibi", None),
    "a window": (Blocks(4), "scaled_dot", patterns.Local(4)),
    "a causal window": (Blocks(4, 2, 0), "scaled_dot", patterns.Local(8) & patterns.Causal()),
    "global tokens": (
        Blocks(4, first=1),
        "scaled_dot",
        patterns.Local(4) | (patterns.Global((0, 2)) & patterns.Causal()),
    ),
    "global tokens anywhere": (
        Blocks(4, tokens=(9, -4)),
        "scaled_dot",
        patterns.Local(4) | (patterns.Global((9, -4)) & patterns.Causal()),
    ),
    "a pattern a head": (
        Blocks(6, 3, 3),
        "alibi",
        patterns.PerHead(tuple(patterns.Local(width) for width in (1, 3, 5, 8, 13))),
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [None, np.array([[5, 17, S - 1], [S, 0, 2]])], ids=["last", "any"])
@pytest.mark.parametrize(("router", "score", "pattern"), LIMITS.values(), ids=LIMITS)
def test_the_limit_is_dense(router: Any, score: str, pattern: Any, rows: Any) -> None:
    masks = {"query_mask": QUERY_MASK, "key_mask": KEY_MASK}
    dense = Dense(score, pattern)
    lookup = Lookup(serialize(router), score, pattern)  # a router with weights belongs to one layer
    assert_close(
        output_of(lookup, **masks, query_positions=rows),
        output_of(dense, **masks, query_positions=AFTER if rows is None else rows),
    )


def test_a_hard_sort_puts_the_block_of_its_choice_first() -> None:
    size, blocks = 4, 3
    key = np.repeat(np.eye(blocks, dtype="float32"), size, axis=0)[None, :, None]
    value = RNG.normal(size=(1, blocks * size, 1, V)).astype("float32")
    query = RNG.normal(size=(1, T, 1, blocks)).astype("float32")
    layer = retrieved(Sinkhorn(size, iterations=20, temperature=0.05))
    output_of(layer, query, key, value)
    layer.set_weights([np.eye(blocks)[None], np.roll(np.eye(blocks), 1, axis=1)[None]])
    # Block i goes to place j where row i, column j of the second kernel is 1.
    expected = output_of(Dense(), query, key[:, size : 2 * size], value[:, size : 2 * size])
    assert_close(output_of(layer, query, key, value), expected)
