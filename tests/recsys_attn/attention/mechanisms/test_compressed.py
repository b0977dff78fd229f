"""Compressed attention equals attention to summaries made by loops, and Dense in the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import compressors, scores
from recsys_attn.attention.compressors import Chain, Convolution, LowRank, Pool, Segments
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.references import compressors as slow

B, T, S, N, H, V = 2, 3, 11, 5, 7, 13
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, N, H), (B, S, N, H), (B, S, N, V))
)
SELF = RNG.normal(size=(B, S, N, H)).astype("float32")
KEY_MASK = RNG.random((B, S)) < 0.6
KEY_MASK[0, :4] = False  # a whole block of padding
QUERY_MASK = np.array([[True, False, True], [True, True, True]])

COMPRESSORS: dict[str, Callable[[], compressors.Compressor]] = {
    "low_rank": lambda: LowRank(4),
    "low_rank shared and longer": lambda: LowRank(4, length=17, share_key_and_value=True),
    "convolution": Convolution,
    "convolution that overlaps": lambda: Convolution(width=3, stride=2),
    "convolution of every step": lambda: Convolution(width=5, stride=1),
    "mean": lambda: Pool(3),
    "max": lambda: Pool(4, "max"),
    "segments": lambda: Segments(4),
    "more segments than events": lambda: Segments(13),
    "maxima of segments": lambda: Segments(3, "max"),
    "chain": lambda: Chain([Convolution(3, 2), Pool(2, "max")]),
    "chain to segments": lambda: Chain([Convolution(2, 2), Segments(4)]),
}
ORDERED = [name for name, make in COMPRESSORS.items() if make().ordered]


def arrays(layer: keras.layers.Layer) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def summaries(layer: Any, key: np.ndarray, value: np.ndarray, present: np.ndarray) -> Any:
    """Keys, values and mask of the summaries, from loops."""
    everything = np.ones((len(key), 1), bool)
    if isinstance(layer, Chain):
        for each in layer.compressors:
            key, value, present = summaries(each, key, value, present)
        return key, value, present
    if isinstance(layer, LowRank):
        kernels = arrays(layer)
        pairs = zip((key, value), (kernels[0], kernels[-1]), strict=True)
        both = [slow.low_rank(x, kernel, present) for x, kernel in pairs]
        return *both, np.repeat(everything, layer.rank, 1)
    if isinstance(layer, Segments):
        count, kind = layer.summaries, layer.kind
        both = [slow.segments(x, kind, present, count) for x in (key, value)]
        return *both, slow.segment_mask(present, count)
    width, stride = steps(layer)
    if isinstance(layer, Convolution):
        pairs = zip((key, value), arrays(layer), strict=True)
        both = [slow.convolution(x, kernel, present, stride) for x, kernel in pairs]
    else:
        both = [slow.pool(x, layer.kind, present, width) for x in (key, value)]
    return *both, slow.summary_mask(present, width, stride)


def steps(layer: Any) -> tuple[int, int]:
    """Width and stride of the blocks of an ordered compressor."""
    return (layer.size, layer.size) if isinstance(layer, Pool) else (layer.width, layer.stride)


def ends(layer: Any, count: int) -> np.ndarray:
    """The last of the positions that each summary stands for."""
    blocks = [steps(each) for each in (layer.compressors if isinstance(layer, Chain) else [layer])]
    return np.array([max(slow.stood_for(blocks, c)) for c in range(count)])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("make", COMPRESSORS.values(), ids=COMPRESSORS)
def test_compressed_equals_attention_to_summaries_made_by_loops(
    make: Callable[[], compressors.Compressor], masked: bool
) -> None:
    masks = {"key_mask": KEY_MASK, "query_mask": QUERY_MASK} if masked else {}
    mechanism = Compressed(make(), "dot")
    output, weights = mechanism(QUERY, KEY, VALUE, **masks)
    assert weights is None
    present = KEY_MASK if masked else np.ones_like(KEY_MASK)
    key, value, mask = summaries(mechanism.compressor, KEY, VALUE, present)
    assert key.shape[1] == mechanism.compressor.count(S)
    queries = QUERY_MASK if masked else np.ones_like(QUERY_MASK)
    allowed = mask[:, None, None, :] & queries[:, None, :, None]
    expected = reference.softmax_weights(
        reference.dot(QUERY.astype("float64"), key),
        np.broadcast_to(allowed, (B, N, T, key.shape[1])),
    )
    assert_close(output, reference.weighted_sums(expected, value))


@pytest.mark.parametrize("name", ORDERED)
def test_causal_queries_attend_what_has_ended(name: str) -> None:
    mechanism = Compressed(COMPRESSORS[name](), "dot", causal=True)
    output, _ = mechanism(SELF, KEY, VALUE, key_mask=KEY_MASK)
    key, value, mask = summaries(mechanism.compressor, KEY, VALUE, KEY_MASK)
    last = ends(mechanism.compressor, key.shape[1])
    allowed = mask[:, None, None, :] & (last[None, :] <= np.arange(S)[:, None])
    expected = reference.softmax_weights(
        reference.dot(SELF.astype("float64"), key),
        np.broadcast_to(allowed, (B, N, S, len(last))),
    )
    assert_close(output, reference.weighted_sums(expected, value))
    np.testing.assert_array_equal(output[:, : last[0]], 0)


IDENTITIES: dict[str, tuple[Callable[[], compressors.Compressor], list[np.ndarray]]] = {
    "low_rank": (lambda: LowRank(S), [np.broadcast_to(np.eye(S), (N, S, S))] * 2),
    "convolution": (
        lambda: Convolution(1, 1),
        [np.broadcast_to(np.eye(size), (N, 1, size, size)) for size in (H, V)],
    ),
    "mean": (lambda: Pool(1), []),
    "max": (lambda: Pool(1, "max"), []),
    # The most events of an example, fewer than there are positions.
    "segments": (lambda: Segments(int(KEY_MASK.sum(1).max())), []),
    "maxima of segments": (lambda: Segments(13, "max"), []),
    "chain": (lambda: Chain([Pool(1), Pool(1, "max")]), []),
}
CAUSAL = [name for name, (make, _) in IDENTITIES.items() if make().ordered]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "causal"),
    [(name, False) for name in IDENTITIES] + [(name, True) for name in CAUSAL],
)
@pytest.mark.parametrize("score", ["scaled_dot", "general"])
def test_without_compression_it_is_dense(name: str, causal: bool, score: str) -> None:
    make, kernels = IDENTITIES[name]
    mechanism = Compressed(make(), score, causal=causal)
    dense = Dense(score, "causal" if causal else None)
    query = SELF if causal else QUERY
    # Linformer's summaries are never masked: padding counts as an event of zeros.
    masks = {} if name == "low_rank" else {"key_mask": KEY_MASK}
    mechanism(query, KEY, VALUE)
    expected, _ = dense(query, KEY, VALUE, **masks)
    mechanism.compressor.set_weights(kernels)
    mechanism.score.set_weights(dense.score.get_weights())
    output, _ = mechanism(query, KEY, VALUE, **masks)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def test_a_mask_of_one_column_stands_for_all_of_them() -> None:
    column = np.array([[True], [False]])
    for make in COMPRESSORS.values():
        mechanism = Compressed(make())
        output, _ = mechanism(QUERY, KEY, VALUE, key_mask=column)
        expected, _ = mechanism(QUERY, KEY, VALUE, key_mask=np.repeat(column, S, 1))
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


@keras.saving.register_keras_serializable(package="tests")
class Distance(scores.Score):
    """Minus the distance of query and key, wherever they are."""

    positional = True

    def build(self, query_shape: Any, key_shape: Any) -> None:
        """Nothing to make."""

    def call(
        self,
        query: Any,
        key: Any,
        allowed: Any = None,
        query_positions: Any = None,
        key_positions: Any = None,
    ) -> Any:
        distance = keras.ops.abs(query_positions[..., :, None] - key_positions[..., None, :])
        shape = (B, N, query.shape[1], key.shape[1])
        return keras.ops.broadcast_to(-keras.ops.cast(distance, "float32"), shape)


def test_a_positional_score_sees_summaries_at_their_ends() -> None:
    mechanism = Compressed(Pool(4), Distance(), weighting="identity")
    output, _ = mechanism(QUERY, KEY, VALUE)
    value = slow.pool(VALUE, "mean", np.ones_like(KEY_MASK), 4)
    # The three queries are the last three of eleven events.
    logits = -np.abs(np.array([8, 9, 10])[:, None] - np.array([3, 7, 11])[None])
    expected = np.einsum("tc,bcnv->btnv", logits, value)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
