"""Queries that look up a few keys: no query minds another, nor padding, nor how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import patterns
from recsys_attn.attention.mechanisms import Lookup, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Router, Sinkhorn
from tests.support.arrays import assert_close
from tests.support.heads import (
    KEY,
    KEY_MASK,
    QUERY,
    VALUE,
    B,
    S,
    T,
    output_of,
)
from tests.support.refusals import refusals

RNG = np.random.default_rng(0)
INPUTS = (QUERY, KEY, VALUE)

ROUTERS: dict[str, Callable[[], Any]] = {
    "band": lambda: Blocks(4),
    "edges and random blocks": lambda: Blocks(4, 1, 0, first=1, last=2, random=2),
    "lsh": lambda: Lsh(3, buckets=4, rounds=2),
    "k_means": lambda: KMeans(3, window=6),
    "sinkhorn": lambda: Sinkhorn(4, length=40),
}
each_router = pytest.mark.parametrize("make", ROUTERS.values(), ids=ROUTERS)


def retrieved(router: Any, **kwargs: Any) -> Lookup:
    return Lookup(router, "scaled_dot", **kwargs)


@pytest.mark.sampled(2)
@each_router
def test_queries_are_independent(make: Callable[[], Any]) -> None:
    layer = Lookup(make())
    together = output_of(layer, key_mask=KEY_MASK)
    for t in range(T):
        alone = output_of(layer, QUERY[:, t : t + 1], KEY, VALUE, key_mask=KEY_MASK)
        np.testing.assert_allclose(alone, together[:, t : t + 1], rtol=1e-5, atol=1e-6)
    turned = output_of(layer, QUERY[:, ::-1], KEY, VALUE, key_mask=KEY_MASK)
    np.testing.assert_allclose(turned[:, ::-1], together, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@each_router
def test_padding_changes_nothing(make: Callable[[], Any]) -> None:
    layer, real = retrieved(make()), 13
    mask = np.arange(S) < np.full((B, 1), real)
    short = output_of(layer, QUERY, KEY[:, :real], VALUE[:, :real], query_positions=np.array([11]))
    wild = [np.where(mask[..., None, None], x, 1e3).astype("float32") for x in (KEY, VALUE)]
    given = {"key_mask": mask, "query_positions": np.array([11])}
    padded = output_of(layer, QUERY, KEY, VALUE, **given)
    np.testing.assert_array_equal(output_of(layer, QUERY, *wild, **given), padded)
    if not isinstance(layer.router, Blocks) or not layer.router.random:
        assert_close(padded, short)


def test_centroids_follow_queries_and_keys_in_training() -> None:
    layer, routed = retrieved(KMeans(4, 6, decay=0.7)), Routed(KMeans(4, 6, decay=0.7))
    output_of(layer)
    output_of(routed, KEY, KEY, VALUE)
    routed.set_weights(layer.get_weights())
    output_of(layer, KEY, KEY, VALUE, query_mask=KEY_MASK, key_mask=KEY_MASK, training=True)
    output_of(routed, KEY, KEY, VALUE, query_mask=KEY_MASK, key_mask=KEY_MASK, training=True)
    assert_close(layer.get_weights()[0], routed.get_weights()[0])


class GroupsOnly(Router):
    pass


test_wrong_use_is_refused = refusals(
    (lambda: Lookup(Lsh(), "dot", patterns.Causal()), "the future would leak"),
    (lambda: Lookup(Sinkhorn(), "alibi"), "Sinkhorn mixes tokens of several positions"),
    (lambda: Lookup(Blocks())(QUERY, KEY, VALUE[:, 1:]), "`key` and `value` must have"),
    (lambda: Lookup(Blocks())(*INPUTS, key_mask=KEY_MASK[:, 1:]), r"`key_mask`.*S=23"),
    (lambda: Lookup(Lsh(), "general")(QUERY[..., 1:], KEY, VALUE), "Lsh compares.*one size"),
)


def test_a_router_of_ones_own_must_look_up() -> None:
    with pytest.raises(NotImplementedError, match="GroupsOnly must implement `look_up`"):
        Lookup(GroupsOnly())(*INPUTS)
