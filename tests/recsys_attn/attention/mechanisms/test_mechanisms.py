"""What every mechanism keeps: heads and rows apart, any size in one graph, zeros for nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention.compressors import Chain, Convolution, LowRank, Pool, Segments
from recsys_attn.attention.feature_maps import Favor
from recsys_attn.attention.mechanisms import Compressed, Dense, Linear, Lookup, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Sinkhorn
from tests.support.arrays import assert_close
from tests.support.heads import (
    KEY,
    KEY_MASK,
    QUERY,
    QUERY_MASK,
    SELF,
    VALUE,
    B,
    H,
    N,
    S,
    T,
    V,
    output_of,
)
from tests.support.layer_case import tensorflow

Make = Callable[[], Any]
ROUTERS: dict[str, Make] = {
    "band": lambda: Blocks(4),
    "edges and random blocks": lambda: Blocks(4, 1, 0, first=1, last=2, random=2),
    "lsh": lambda: Lsh(4, buckets=4, rounds=2),
    "k_means": lambda: KMeans(3, window=6),
    "sinkhorn": lambda: Sinkhorn(4, length=40),
}
ROUTED: dict[str, Make] = {
    f"routed, {name}": lambda make=make: Routed(make(), "scaled_dot")
    for name, make in ROUTERS.items()
}
LOOKUPS: dict[str, Make] = {
    f"lookup, {name}": lambda make=make: Lookup(make(), "scaled_dot")
    for name, make in ROUTERS.items()
}
ACROSS: dict[str, Make] = {
    "dense": lambda: Dense("general"),
    "low rank": lambda: Compressed(LowRank(4, length=S), "general"),
    "convolution": lambda: Compressed(Convolution(3, 2)),
    "maximum": lambda: Compressed(Pool(4, "max")),
    "segments": lambda: Compressed(Segments(4)),
    "chain": lambda: Compressed(Chain([Convolution(2, 2), Segments(4)])),
    "elu": Linear,
    "softmax": lambda: Linear("softmax"),
    "favor": lambda: Linear(Favor(16)),
    **LOOKUPS,
}
ALONG: dict[str, Make] = {
    "convolution, causal": lambda: Compressed(Convolution(3, 2), causal=True),
    "chain, causal": lambda: Compressed(Chain([Convolution(2, 1), Pool(2)]), causal=True),
    "elu, causal": lambda: Linear(causal=True, chunk=4),
    "softmax, causal": lambda: Linear("softmax", causal=True, chunk=4),
    **ROUTED,
}
every_mechanism = pytest.mark.parametrize("name", [*ACROSS, *ALONG])


def case(name: str) -> tuple[Any, tuple[np.ndarray, ...], dict[str, np.ndarray]]:
    """A mechanism, its inputs and their masks."""
    if name in ACROSS:
        masks = {"query_mask": QUERY_MASK, "key_mask": KEY_MASK}
        return ACROSS[name](), (QUERY, KEY, VALUE), masks
    return ALONG[name](), (SELF, KEY, VALUE), {"query_mask": KEY_MASK, "key_mask": KEY_MASK}


@pytest.mark.sampled(9)
@every_mechanism
def test_heads_are_separate_attentions(name: str) -> None:
    layer, inputs, masks = case(name)
    together = output_of(layer, *inputs, **masks)
    for head in (0, N - 1):
        one = slice(head, head + 1)
        alone, inputs_of_head = case(name)[0], [x[:, :, one] for x in inputs]
        output_of(alone, *inputs_of_head)
        weights = [w[one] if len(w) == N else w for w in layer.get_weights()]
        alone.set_weights(weights)
        assert_close(output_of(alone, *inputs_of_head, **masks), together[:, :, one])


@pytest.mark.sampled(9)
@every_mechanism
def test_batch_of_one_meets_any_batch(name: str) -> None:
    layer, (query, key, value), masks = case(name)
    some = {"key_mask": masks["key_mask"]}
    pairs: list[Any] = [((query[:1], key[:1], value[:1]), masks)]
    if name not in ROUTED:
        pairs += [((query, key[:1], value[:1]), some), ((query[:1], key, value), {})]
    for inputs, given in pairs:
        repeated = [np.repeat(x, B // len(x), axis=0) for x in inputs]
        assert_close(output_of(layer, *inputs, **given), output_of(layer, *repeated, **given))


@pytest.mark.sampled(3)
@every_mechanism
def test_nothing_to_attend_gives_zeros(name: str) -> None:
    layer, inputs, masks = case(name)
    nothing = masks["key_mask"] & np.array([[True], [False]])
    output = output_of(layer, *inputs, query_mask=masks["query_mask"], key_mask=nothing)
    np.testing.assert_array_equal(output[1], 0)
    np.testing.assert_array_equal(output[0][~masks["query_mask"][0]], 0)
    assert np.abs(output[0]).max() > 0


@pytest.mark.sampled(3)
@every_mechanism
def test_no_requests_and_no_events_are_taken(name: str) -> None:
    tensorflow()  # other backends know the shapes of a batch beforehand
    layer, (query, key, value), masks = case(name)
    output_of(layer, query, key, value)
    for training in (False, True):
        none = [x[:0] for x in (query, key, value)]
        given = {mask: x[:0] for mask, x in masks.items()}
        output = output_of(layer, *none, **given, training=training)
        assert output.shape == (0, *query.shape[1:3], V)
    query = query if name in ACROSS else query[:, :0]
    output = output_of(layer, query, key[:, :0], value[:, :0])
    np.testing.assert_array_equal(output, np.zeros((*query.shape[:3], V)))


# The exports of all compositions are graphs of unknown sizes too, though not of none.
GRAPHS = (
    *("dense", "low rank", "chain", "favor", "elu, causal"),
    *("routed, band", "routed, lsh", "routed, sinkhorn"),
    *("lookup, k_means", "lookup, edges and random blocks"),
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GRAPHS)
def test_one_graph_serves_every_size(name: str) -> None:
    tf = tensorflow()
    layer, inputs, _ = case(name)
    output_of(layer, *inputs)
    shapes = [(None, None, N, size) for size in (H, H, V)]

    @tf.function(
        input_signature=[*map(tf.TensorSpec, shapes), tf.TensorSpec((None, None), tf.bool)]
    )
    def graph(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return layer(query, key, value, key_mask=mask)[0]

    for queries, keys in ((T, 0), (1, 1), (2, 4), (0, 5), (T, S - 1)):
        queries = queries if name in ACROSS else keys
        some = inputs[0][:, :queries], KEY[:, :keys], VALUE[:, :keys]
        mask = KEY_MASK[:, :keys]
        assert_close(graph(*some, mask), output_of(layer, *some, key_mask=mask))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*ROUTED, "lookup, lsh", "lookup, sinkhorn", "favor", "chain"])
def test_training_in_a_graph_reaches_every_input(name: str) -> None:
    tf = tensorflow()
    layer, arrays, masks = case(name)
    inputs = [tf.constant(x) for x in arrays]

    @tf.function
    def gradients() -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(*inputs, **masks, training=True)[0] ** 2)
        return tape.gradient(loss, [*inputs, *layer.trainable_variables])

    for gradient in map(tf.convert_to_tensor, gradients()):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0
        if gradient.shape[1] == S:
            np.testing.assert_array_equal(gradient[~KEY_MASK], 0)


DROPPING: dict[str, Make] = {
    "dense": lambda: Dense(dropout=0.5),
    "compressed": lambda: Compressed(Pool(2), dropout=0.5),
    "routed": lambda: Routed(Blocks(4), dropout=0.5),
    "lookup": lambda: Lookup(Blocks(4), dropout=0.5),
}


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_is_for_training_only(name: str) -> None:
    layer, inputs = DROPPING[name](), (SELF, KEY, VALUE)
    still = output_of(layer, *inputs)
    np.testing.assert_array_equal(output_of(layer, *inputs), still)
    assert np.abs(output_of(layer, *inputs, training=True) - still).max() > 0.1
