"""Parts that the user made keep the contract of their kind, or are refused when they are built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Compressed, Dense, Linear, MultiHeadAttention
from recsys_attn.attention.compressors import CompressedKeys, Compressor
from recsys_attn.attention.decays import Decay
from recsys_attn.attention.feature_maps import FeatureMap
from recsys_attn.attention.mechanisms import Mechanism
from recsys_attn.attention.mechanisms.pair_values import PairValues
from recsys_attn.attention.scores import Dot, Score, TimeBuckets
from recsys_attn.attention.weightings import Softmax, TalkingHeads, Weighting

EVENTS = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
PRESENT = np.array([[True, True, True, False, False], [False] * 5])


class Leaky(Weighting):
    def call(self, logits: Any, allowed: Any = None) -> Any:
        return ops.softmax(logits)


class Masked(Weighting):
    """Divides by the sum of all, also of what is not allowed."""

    def call(self, logits: Any, allowed: Any = None) -> Any:
        weights = ops.softmax(logits)
        return weights if allowed is None else weights * ops.cast(allowed, weights.dtype)


class Average(Mechanism):
    honours = ("key_mask",)

    def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
        present = ops.ones(ops.shape(value)[:2]) if masks.key is None else masks.key
        present = ops.cast(present, value.dtype)[:, :, None, None]
        total = ops.sum(value * present, axis=1, keepdims=True)
        mean = total / ops.maximum(ops.sum(present, axis=1, keepdims=True), 1.0)
        return mean * ops.ones_like(query[..., :1]), None


class AllOf(Average):
    def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
        return super().call(query, key, value, masks._replace(key=None))


class EarlierOnly(Average):
    is_causal = True


class EveryOther(Compressor):
    def compress(self, key: Any, value: Any, key_mask: Any = None) -> CompressedKeys:
        return CompressedKeys(key[:, ::2], value[:, ::2], None)

    def count(self, length: int | None) -> int | None:
        return None if length is None else (length + 1) // 2

    def ends(self, summaries: Any) -> Any:
        return 2 * summaries


class Infinite(Score):
    def call(self, query: Any, key: Any, allowed: Any = None) -> Any:
        return ops.log(-ops.square(Dot()(query, key)))


class AllNan(PairValues):
    num_kinds = 1

    def call(self, weights: Any, *others: Any) -> Any:
        return super().call(weights, *others) * float("nan")

    def kinds(self, query: Any, key: Any, allowed: Any, rows: Any, columns: Any) -> Any:
        return ops.zeros((1, 1, query.shape[1], key.shape[1]), "int32")


class Boundless(FeatureMap):
    def query_features(self, query: Any) -> Any:
        return ops.log(query)


class Gone(Decay):
    def logarithms(self, key: Any) -> Any:
        return ops.log(-ops.abs(key[..., :1]))


BROKEN = {
    "score": (lambda: Dense(Infinite()), "Infinite must keep the contract .*: finite logits"),
    "sum": (lambda: Dense(Dot() + Infinite()), "Infinite must keep .*: finite logits"),
    "values": (lambda: Dense(pair_values=AllNan()), "AllNan must keep .*: finite numbers"),
    "features": (lambda: Linear(Boundless()), "Boundless must keep .*: finite features"),
    "decay": (lambda: Linear(causal=True, decay=Gone()), "Gone must keep .*: the share of a key"),
    "weighting": (lambda: Dense(weighting=Leaky()), "Leaky must keep .*0 where `allowed` is False"),
    "beside times": (
        lambda: Dense(Dot() + TimeBuckets(4, next_event=True), weighting=Leaky()),
        "Leaky must keep .*0 where `allowed` is False",
    ),
    "denominator": (lambda: Dense(weighting=Masked()), "changes by .* that `key_mask` hides"),
    "mechanism": (AllOf, "AllOf must keep .*`honours` names the masks"),
    "causal": (EarlierOnly, "`is_causal`, and a first output"),
    "compressor": (lambda: Compressed(EveryOther()), "masked keys and values do not influence"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_part_that_ignores_its_mask_is_refused(name: str) -> None:
    make, words = BROKEN[name]
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(2, 4, make())(EVENTS)


def test_parts_that_keep_it_are_taken() -> None:
    class Own(Softmax):
        pass

    for mechanism in (Average(), Dense(weighting=Own()), Dense(weighting=TalkingHeads(Own()))):
        assert MultiHeadAttention(2, 4, mechanism)(EVENTS).shape == EVENTS.shape


def test_padded_queries_of_any_mechanism_are_zeros() -> None:
    layer = MultiHeadAttention(2, 4, Average(), use_bias=False)
    output = ops.convert_to_numpy(layer(EVENTS, query_mask=PRESENT))
    np.testing.assert_array_equal(output[~PRESENT], 0)
    assert np.abs(output[PRESENT]).min() > 0


def test_a_mask_that_is_not_honoured_names_honours() -> None:
    pairs = np.ones((2, 5, 5), bool)
    with pytest.raises(TypeError, match=r"`honours` of its class names \('key_mask',\) alone"):
        MultiHeadAttention(2, 4, Average())(EVENTS, attention_mask=pairs)
