"""Compressors by themselves and in a layer: weights, names, graphs, wrong use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import compressors, mechanisms, scores
from recsys_attn.attention.compressors import Chain, Convolution, LowRank, Pool, Segments
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.scores.base import Score
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.references import compressors as slow
from tests.support.refusals import refusals

B, T, S, N, H, V = 2, 3, 11, 5, 7, 13
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE, SELF = (
    RNG.normal(size=shape).astype("float32")
    for shape in ((B, T, N, H), (B, S, N, H), (B, S, N, V), (B, S, N, H))
)


class Positional(Score):
    positional = True


@pytest.mark.parametrize("layer_class", [LowRank, Convolution])
def test_every_head_starts_different(layer_class: type[compressors.Compressor]) -> None:
    layer = layer_class(4)
    layer.build(KEY.shape, VALUE.shape)
    for kernel in map(keras.ops.convert_to_numpy, layer.weights):
        assert len({head.tobytes() for head in kernel}) == N


def test_low_rank_uses_the_first_columns_for_a_shorter_sequence() -> None:
    layer = LowRank(4, length=S)
    layer.build(KEY.shape, VALUE.shape)
    short = layer.compress(*[keras.ops.convert_to_tensor(x[:, :5]) for x in (KEY, VALUE)])
    cut = layer.compress(
        *[keras.ops.convert_to_tensor(x) for x in (KEY, VALUE, np.arange(S)[None] < 5)]
    )
    np.testing.assert_allclose(short.key, cut.key, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(short.value, cut.value, rtol=1e-5, atol=1e-6)


def test_names_and_configs_make_the_same_mechanism() -> None:
    short = {"class_name": "low_rank", "config": {"rank": 4, "length": 17}}
    mechanism = mechanisms.get(
        {"class_name": "compressed", "config": {"compressor": short, "score": "general"}}
    )
    config = json.loads(json.dumps(mechanisms.serialize(mechanism)))
    revived = mechanisms.get(config)
    for made in (mechanism, revived):
        made(QUERY, KEY, VALUE)
    revived.set_weights(mechanism.get_weights())
    np.testing.assert_array_equal(revived(QUERY, KEY, VALUE)[0], mechanism(QUERY, KEY, VALUE)[0])
    kinds = {"convolution": Convolution, "pool": Pool, "segments": Segments}
    assert {name: type(compressors.get(name)) for name in kinds} == kinds


test_wrong_use_is_one_sentence = refusals(
    (lambda: LowRank(0), "`rank` must be a positive integer"),
    (lambda: LowRank(3, length=0), "`length` must be a positive integer"),
    (lambda: Convolution(width=0), "`width` must be a positive integer"),
    (lambda: Convolution(stride=0), "`stride` must be a positive integer"),
    (lambda: Convolution(2, 3), "`stride` must be at most `width`.*width=2, stride=3"),
    (lambda: Pool(0), "`size` must be a positive integer"),
    (lambda: Pool(2, "maxx"), "`kind` must be the name of a pooling.*Did you mean 'max'"),
    (lambda: Segments(0), "`summaries` must be a positive integer"),
    (lambda: Segments(2, "men"), "`kind` must be the name of a pooling.*Did you mean 'mean'"),
    (lambda: Chain([]), "`compressors` must be a list of at least one.*compressors=\\[\\]"),
    (lambda: Chain("pool"), "`compressors` must be a list.*compressors='pool'"),
    (lambda: Chain(["pool", "segment"]), "Expected a compressor.*Did you mean 'segments'"),
    (lambda: Compressed("pol"), "Expected a compressor.*Did you mean 'pool'"),
    (lambda: Compressed(LowRank(3), causal=True), "Convolution or Pool, or the mechanism Lin"),
    (lambda: Compressed("segments", causal=True), "`causal` is not possible with Segments"),
    (lambda: Compressed(Chain(["segments", "pool"]), causal=True), "not possible with Chain"),
    (lambda: Compressed(Chain(["pool", "segments"]), Positional()), "not possible with Chain"),
    (lambda: Compressed(LowRank(3), Positional()), "its summaries have no position"),
    (lambda: Compressed("pool", causal=True)(QUERY, KEY, VALUE), "Received: 3 queries and 11"),
    (lambda: Compressed("pool")(QUERY, KEY, VALUE[:, :-1]), "with the same S and N"),
    (lambda: Compressed("pool")(QUERY, KEY, VALUE, key_mask=KEY[:, 1:, 0, 0] > 0), "S=11"),
    (lambda: Compressed(Pool(2), scores.Location(S - 1))(SELF, KEY, VALUE), f"length={S}"),
    (lambda: Compressed(LowRank(3, 7))(QUERY, KEY, VALUE), "`length` of at most 7.*11 events"),
    (lambda: LowRank(3).build((None, None, N, H), (None, None, N, V)), "Give `length`"),
)


SUM = {"class_name": "sum", "config": {"scores": ["dot", "alibi"]}}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("score", ["dot", SUM], ids=["dot", "sum"])
@pytest.mark.parametrize(
    "make",
    [
        Convolution,
        lambda: Convolution(4, 4),
        lambda: Convolution(3, 2),
        lambda: Convolution(5, 1),
        lambda: Pool(3),
        lambda: Pool(2, "max"),
        lambda: Chain([Convolution(3, 2), Pool(2)]),
    ],
)
def test_padding_behind_the_events_changes_nothing(
    make: Callable[[], compressors.Compressor], score: Any, causal: bool
) -> None:
    mechanism = Compressed(make(), score, causal=causal)
    alone = mechanism(*[x[:, :5] for x in (SELF, KEY, VALUE)])[0]
    for length in (6, 7, S):
        mask = np.arange(length)[None] < 5
        padded = mechanism(*[x[:, :length] for x in (SELF, KEY, VALUE)], key_mask=mask)[0]
        np.testing.assert_allclose(
            padded[:, :5], alone, rtol=1e-5, atol=1e-6, err_msg=f"padded to {length}"
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("weighting", ["softmax", "gaussian"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Convolution(3, 2),
        lambda: Pool(3),
        lambda: Pool(2),
        lambda: Chain([Pool(2), Convolution(2, 1)]),
    ],
)
def test_causal_outputs_do_not_change_as_events_follow(
    make: Callable[[], compressors.Compressor], weighting: str
) -> None:
    mechanism = Compressed(make(), weighting=weighting, causal=True)
    together = mechanism(SELF, KEY, VALUE)[0]
    for length in range(1, S):
        alone = mechanism(*[x[:, :length] for x in (SELF, KEY, VALUE)])[0]
        np.testing.assert_allclose(alone, together[:, :length], rtol=1e-5, atol=1e-6)


def test_low_rank_refuses_a_longer_sequence_after_it_was_built() -> None:
    mechanism = Compressed(LowRank(3))
    mechanism(QUERY, KEY[:, :7], VALUE[:, :7])
    with pytest.raises(ValueError, match="greater `length` or cut the sequence"):
        mechanism(QUERY, KEY, VALUE)


def test_a_score_of_a_length_has_a_place_for_every_event() -> None:
    mechanism = Compressed(Pool(2), scores.Location())
    output, _ = mechanism(SELF, KEY, VALUE)
    kernel = keras.ops.convert_to_numpy(mechanism.score.kernel)
    assert kernel.shape == (N, H, S)
    places = [1, 3, 5, 7, 9, 10]  # the sixth summary ends behind the last event
    logits = np.einsum("btnh,nhc->bntc", SELF, kernel[:, :, places])
    value = slow.pool(VALUE, "mean", np.ones((B, S), bool), 2)
    expected = reference.weighted_sums(reference.softmax_weights(logits), value)
    assert_close(output, expected)


def test_a_mask_of_pairs_is_not_taken() -> None:
    with pytest.raises(TypeError, match="attention_mask"):
        Compressed("pool")(QUERY, KEY, VALUE, attention_mask=np.ones((B, T, S), bool))
