"""A fixed number of summaries: the limits, padding, half precision, and after a convolution."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from recsys_attn.attention import compressors, presets
from recsys_attn.attention.compressors import Chain, Convolution, Pool, Segments
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense

B, T, S, N, H, V = 2, 3, 11, 5, 7, 13
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, N, H), (B, S, N, H), (B, S, N, V))
)
KINDS = pytest.mark.parametrize("kind", ["mean", "max"])


@KINDS
@pytest.mark.parametrize("count", [1, 2, 5, 10, 11, 17])
def test_runs_are_nearly_equal_and_hold_every_event_once(kind: str, count: int) -> None:
    numbers = np.arange(S, dtype="float32").reshape(1, S, 1, 1)
    inputs = [keras.ops.convert_to_tensor(numbers)] * 2
    key, _, mask = Segments(count, kind).compress(*inputs)
    runs = [run for run in np.array_split(np.arange(S), count) if len(run)]
    expected = [run.mean() if kind == "mean" else run.max() for run in runs]
    np.testing.assert_array_equal(np.asarray(mask)[0], np.arange(count) < min(count, S))
    np.testing.assert_allclose(np.asarray(key)[0, : len(runs), 0, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(key)[0, len(runs) :], 0)


@KINDS
@pytest.mark.parametrize("weighting", ["softmax", "identity", "sigmoid"])
def test_enough_segments_are_dense_attention(kind: str, weighting: str) -> None:
    mask = RNG.permuted(np.arange(S) < np.array([[7], [2]]), axis=1)
    expected, _ = Dense(weighting=weighting)(QUERY, KEY, VALUE, key_mask=mask)
    for count in (7, 13):
        mechanism = Compressed(Segments(count, kind), weighting=weighting)
        output, _ = mechanism(QUERY, KEY, VALUE, key_mask=mask)
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    fewer, _ = Compressed(Segments(6, kind), weighting=weighting)(QUERY, KEY, VALUE, key_mask=mask)
    assert np.abs(np.asarray(fewer)[0] - np.asarray(expected)[0]).max() > 1e-3


@KINDS
def test_padding_between_the_events_changes_nothing(kind: str) -> None:
    mechanism = Compressed(Segments(4, kind))
    alone, _ = mechanism(QUERY, KEY, VALUE)
    mask = RNG.permuted(np.arange(19) < np.array([[S]] * B), axis=1)
    key, value = (RNG.normal(size=(B, 19, *x.shape[2:])).astype("float32") for x in (KEY, VALUE))
    key[mask], value[mask] = KEY.reshape(-1, N, H), VALUE.reshape(-1, N, V)
    spread, _ = mechanism(QUERY, key, value, key_mask=mask)
    np.testing.assert_allclose(spread, alone, rtol=1e-5, atol=1e-6)


@KINDS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_runs_keep_their_small_terms(kind: str, dtype: str) -> None:
    ones = keras.ops.ones((1, 4099, 1, 1), dtype)
    key, _, _ = Segments(2, kind, dtype=dtype).compress(ones, ones)
    assert keras.backend.standardize_dtype(key.dtype) == dtype
    np.testing.assert_array_equal(keras.ops.cast(key, "float32"), np.ones((1, 2, 1, 1)))


@pytest.mark.parametrize("summaries", [4, 64])
def test_few_summaries_are_memory_compressed_attention_as_it_was(summaries: int) -> None:
    plain = presets.memory_compressed(3)
    few = presets.memory_compressed(3, summaries=summaries)
    fewer = presets.memory_compressed(3, summaries=3)
    mask = np.arange(S) < np.array([[S], [5]])
    expected, _ = plain(QUERY, KEY, VALUE, key_mask=mask)
    for mechanism in (few, fewer):
        mechanism(QUERY, KEY, VALUE)
        mechanism.set_weights(plain.get_weights())
    output, _ = few(QUERY, KEY, VALUE, key_mask=mask)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(np.asarray(fewer(QUERY, KEY, VALUE, key_mask=mask)[0] - expected)).max() > 1e-3


def test_chain_is_made_from_names_and_survives_json() -> None:
    segments = {"class_name": "segments", "config": {"summaries": 3, "kind": "max"}}
    short = {"class_name": "chain", "config": {"compressors": ["convolution", segments]}}
    chain = compressors.get(short, dtype="mixed_bfloat16")
    assert [type(each) for each in chain.compressors] == [Convolution, Segments]
    assert {each.compute_dtype for each in chain.compressors} == {"bfloat16"}
    chain.build(KEY.shape, VALUE.shape)
    revived = compressors.get(json.loads(json.dumps(compressors.serialize(chain))))
    assert revived.get_config() == chain.get_config()
    assert revived.compressors[1].summaries == 3


def test_a_chain_is_ordered_where_all_of_it_is() -> None:
    assert Chain([Convolution(), Pool()]).ordered
    assert not Chain([Convolution(), Segments()]).ordered
    assert Chain([Pool(3), Pool(2)]).count(S) == 2
    # Six events a summary, also where the last one is not full.
    ends = Chain([Pool(3), Pool(2)]).ends(keras.ops.arange(2))
    np.testing.assert_array_equal(ends, [5, 11])
