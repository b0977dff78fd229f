"""Weights of the fast mechanisms: applied to the values, they give the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import (
    Attention,
    AttentionPooling,
    MultiHeadAttention,
    SparseWeights,
    SummaryWeights,
    dense_weights,
    patterns,
)
from recsys_attn.attention.compressors import (
    Chain,
    Compressor,
    Convolution,
    LowRank,
    Pool,
    Segments,
)
from recsys_attn.attention.compressors.base import CompressedKeys
from recsys_attn.attention.mechanisms import Compressed, Lookup, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Router, Sinkhorn
from recsys_attn.attention.routers.groups import Groups
from tests.support.arrays import assert_close, numpy
from tests.support.heads import KEY, KEY_MASK, QUERY, QUERY_MASK, SELF, VALUE, H, N, S, T, V
from tests.support.layer_case import tensorflow

Make = Callable[[], Any]
ROUTERS: dict[str, Make] = {
    "band": lambda: Blocks(4),
    "edges and random blocks": lambda: Blocks(4, 1, 0, first=2, last=2, random=2),
    "edges that overlap": lambda: Blocks(9, first=2, last=2),
    "tokens": lambda: Blocks(4, 1, 0, first=1, last=2, tokens=(-2, 9, 1, 9)),
    "one round": lambda: Lsh(4, buckets=4),
    "rounds": lambda: Lsh(3, buckets=2, rounds=3),
    "k-means": lambda: KMeans(3, window=6),
    "Sinkhorn": lambda: Sinkhorn(4, length=40),
}
MECHANISMS: dict[str, Make] = {
    **{f"routed, {n}": lambda make=make: Routed(make()) for n, make in ROUTERS.items()},
    **{f"lookup, {n}": lambda make=make: Lookup(make()) for n, make in ROUTERS.items()},
    "a pattern": lambda: Routed(Lsh(4, buckets=2, rounds=2), pattern=patterns.Local(5)),
    "low rank": lambda: Compressed(LowRank(4, length=S)),
    "low rank, shared": lambda: Compressed(LowRank(4, length=S + 2, share_key_and_value=True)),
    "means": lambda: Compressed(Pool(4)),
    "means, causal": lambda: Compressed(Pool(3), causal=True),
    "segments": lambda: Compressed(Segments(5)),
    "chain of means": lambda: Compressed(Chain([Pool(2), Segments(4)])),
}
each_mechanism = pytest.mark.parametrize("name", MECHANISMS)
masked = pytest.mark.parametrize("mask", [False, True], ids=["no masks", "masks"])


def of_itself(name: str) -> bool:
    return "routed" in name or name in ("a pattern", "means, causal")


def case(name: str, mask: bool) -> tuple[Any, np.ndarray, dict[str, np.ndarray]]:
    query, query_mask = (SELF, KEY_MASK) if of_itself(name) else (QUERY, QUERY_MASK)
    masks = {"query_mask": query_mask, "key_mask": KEY_MASK} if mask else {}
    return MECHANISMS[name](), query, masks


@pytest.mark.sampled(9)
@masked
@each_mechanism
def test_weights_times_values_are_the_output(name: str, mask: bool) -> None:
    layer, query, masks = case(name, mask)
    output, weights = layer(query, KEY, VALUE, return_weights=True, **masks)
    dense = numpy(dense_weights(weights, query.shape[1], S)).astype("float64")
    assert_close(numpy(output), np.einsum("bnts,bsnv->btnv", dense, VALUE))
    assert_close(numpy(output), numpy(layer(query, KEY, VALUE, **masks)[0]))
    assert layer(query, KEY, VALUE, **masks)[1] is None
    if mask:
        np.testing.assert_array_equal(dense[:, :, :, ~KEY_MASK.any(0)], 0)
        absent = np.broadcast_to(~KEY_MASK[:, None, None], dense.shape)
        np.testing.assert_array_equal(dense[absent], 0)
        np.testing.assert_array_equal(dense.transpose(0, 2, 1, 3)[~masks["query_mask"]], 0)
    if "low rank" not in name and "Sinkhorn" not in name:
        total = dense.sum(axis=-1)
        assert_close(total[total != 0], np.ones_like(total[total != 0]))


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("routed, band", 6 * 4 * 12), ("routed, rounds", 3 * 8 * 3 * 6), ("lookup, one round", T * 4)],
)
def test_only_pairs_of_a_group_are_listed(name: str, pairs: int) -> None:
    layer, query, _ = case(name, False)
    _, weights = layer(query, KEY, VALUE, return_weights=True)
    assert isinstance(weights, SparseWeights)
    assert {tuple(x.shape) for x in weights} == {(2, N, pairs)}


@pytest.mark.parametrize("make", [lambda: Convolution(3, 2), lambda: Pool(4, "max")])
def test_events_of_a_summary_without_shares_count_equally(make: Make) -> None:
    layer = Compressed(make())
    _, weights = layer(QUERY, KEY, VALUE, key_mask=KEY_MASK, return_weights=True)
    assert isinstance(weights, SummaryWeights)
    width, stride = (3, 2) if isinstance(layer.compressor, Convolution) else (4, 4)
    share = numpy(weights.share)
    for b, c in np.ndindex(2, share.shape[2]):
        inside = [s for s in range(c * stride, min(c * stride + width, S)) if KEY_MASK[b, s]]
        expected = np.zeros(S)
        expected[inside] = 1 / max(len(inside), 1)
        assert_close(share[b, 0, c], expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name", ["routed, rounds", "lookup, k-means", "routed, Sinkhorn", "segments"]
)
def test_a_graph_of_unknown_sizes_has_the_same_weights(name: str) -> None:
    tf = tensorflow()
    layer, query, masks = case(name, True)
    dense = dense_weights(
        layer(query, KEY, VALUE, return_weights=True, **masks)[1], query.shape[1], S
    )
    shapes = [(None, None, N, size) for size in (H, H, V)]
    specs = [*map(tf.TensorSpec, shapes), *[tf.TensorSpec((None, None), tf.bool)] * 2]

    @tf.function(input_signature=specs)
    def graph(query: Any, key: Any, value: Any, query_mask: Any, key_mask: Any) -> Any:
        given = {"query_mask": query_mask, "key_mask": key_mask}
        _, weights = layer(query, key, value, return_weights=True, **given)
        return dense_weights(weights, tf.shape(query)[1], tf.shape(key)[1])

    assert_close(numpy(graph(query, KEY, VALUE, *masks.values())), numpy(dense))
    nothing = [x[:, :0] for x in (query, KEY, VALUE, *masks.values())]
    assert graph(*nothing).shape == (2, N, 0, 0)


EVENTS = SELF[:, :, 0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", ["reformer", "longformer", "sinkhorn", "linformer"])
def test_layers_return_the_weights_of_every_mechanism(mechanism: str) -> None:
    inputs = keras.Input(EVENTS.shape[1:])
    layer = MultiHeadAttention(2, 4, mechanism)
    model = keras.Model(inputs, layer(inputs, return_weights=True))
    output, weights = layer(EVENTS, return_weights=True)
    assert_close(numpy(output), numpy(layer(EVENTS)))
    assert dense_weights(weights, S, S).shape == (2, 2, S, S)
    kind = SummaryWeights if mechanism == "linformer" else SparseWeights
    found = model(EVENTS)
    assert isinstance(found[1], kind)
    assert isinstance(weights, kind)
    assert_close(numpy(found[1].weight), numpy(weights.weight))
    for symbol, tensor in zip(model.outputs, keras.tree.flatten(found), strict=True):
        known = [n if s is None else s for s, n in zip(symbol.shape, tensor.shape, strict=True)]
        assert known == list(tensor.shape)


def test_a_layer_without_heads_drops_their_axis() -> None:
    layer = Attention(Routed(Lsh(4, buckets=2)))
    output, weights = layer(EVENTS, EVENTS, return_weights=True)
    dense = numpy(dense_weights(weights, S, S))
    assert_close(numpy(output), dense @ EVENTS)


@pytest.mark.parametrize("queries", [None, 3])
def test_pooling_returns_dense_weights(queries: int | None) -> None:
    pooling = AttentionPooling(Lookup(Lsh(4, buckets=2)), num_queries=queries)
    output, weights = pooling(EVENTS, return_weights=True)
    assert_close(
        numpy(output),
        numpy(weights) @ EVENTS if queries else np.einsum("bs,bse->be", weights, EVENTS),
    )


class Whole(Router):
    has_positions = False

    def group(
        self, query: Any, key: Any, value: Any, query_mask: Any, key_mask: Any, training: Any
    ) -> list[Groups]:
        allowed = None if key_mask is None else key_mask[:, None, None]
        return [Groups(query, key, value, allowed=allowed)]

    def merge(self, groups: Any, outputs: Any, masses: Any) -> Any:
        return outputs[0]


class Same(Compressor):
    ordered = False

    def compress(self, key: Any, value: Any, key_mask: Any = None) -> CompressedKeys:
        return CompressedKeys(key, value, key_mask)

    def count(self, length: Any) -> Any:
        return length


def test_own_parts_without_shares_make_no_weights() -> None:
    for mechanism in (Routed(Whole()), Compressed(Same()), Compressed(Chain([Pool(2), Same()]))):
        with pytest.raises(ValueError, match="`return_weights` needs the weight of each pair"):
            MultiHeadAttention(2, 4, mechanism)(EVENTS, return_weights=True)
