"""Every score equals a loop over pairs, wherever queries and keys stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import scores
from recsys_attn.attention.scores import get
from recsys_attn.blocks import Dice
from tests.support.arrays import assert_close, normal, weights_of
from tests.support.layer_case import tensorflow
from tests.support.reference import relu
from tests.support.references import scores as reference
from tests.support.refusals import refusals
from tests.support.score_case import (
    LENGTH,
    B,
    H,
    N,
    S,
    T,
    expected,
    positions,
    vectors,
    with_random_weights,
)

Reference = Callable[..., reference.PairScore]
Case = tuple[Callable[[], scores.Score], Reference]

CONTENT: dict[str, Case] = {
    "dot": (lambda: get("dot"), reference.dot),
    "scaled_dot": (lambda: get("scaled_dot"), lambda: reference.dot(scale=True)),
    "dot with a bias": (lambda: scores.Dot(query_bias=True), reference.dot),
    "scaled_dot with a bias": (
        lambda: scores.Dot(True, query_bias=True),
        lambda bias: reference.dot(bias, scale=True),
    ),
    "cosine": (lambda: scores.Cosine(temperature=0.3), lambda: reference.cosine(0.3)),
    "general": (scores.General, reference.general),
    "additive": (lambda: scores.Additive(units=4), reference.additive),
    "additive of the key's size": (scores.Additive, reference.additive),
    "key_only": (
        lambda: scores.KeyOnly(3, "relu"),
        lambda *weights: reference.key_only(relu, *weights),
    ),
    "qk_norm": (
        scores.QkNorm,
        lambda *gains: reference.qk_norm(reference.dot(scale=True), *gains),
    ),
    "soft_cap": (
        lambda: scores.SoftCap("dot", cap=1.5),
        lambda: reference.soft_cap(reference.dot(), 1.5),
    ),
    "temperature": (
        lambda: scores.Temperature("cosine", initial=0.7, least=0.5),
        lambda weight: reference.temperature(reference.cosine(1), weight, 0.5),
    ),
    "key_only, tanh": (
        lambda: scores.KeyOnly(3, "tanh"),
        lambda *weights: reference.key_only(np.tanh, *weights),
    ),
}
POSITIONAL: dict[str, Case] = {
    "location": (lambda: scores.Location(LENGTH), reference.location),
    "dense_synthesizer": (
        lambda: scores.DenseSynthesizer(LENGTH, units=6),
        reference.dense_synthesizer,
    ),
    "random_synthesizer": (
        lambda: scores.RandomSynthesizer(LENGTH),
        reference.random_synthesizer,
    ),
    "factorised_dense_synthesizer": (
        lambda: scores.FactorisedDenseSynthesizer(LENGTH, factor=4),
        reference.factorised_dense_synthesizer,
    ),
    "factorised_random_synthesizer": (
        lambda: scores.FactorisedRandomSynthesizer(LENGTH, rank=2),
        reference.factorised_random_synthesizer,
    ),
    "relative_dot": (
        lambda: scores.RelativeDot(3),
        lambda *weights: reference.relative_dot(*weights, max_distance=3),
    ),
    "relative_dot, scaled": (
        lambda: scores.RelativeDot(100, scale=True, units=6),
        lambda *weights: reference.relative_dot(*weights, max_distance=100, scale=True),
    ),
    "relative_buckets": (
        lambda: scores.RelativeBuckets(8, 6),
        lambda table: reference.relative_buckets(table, 8, 6, True),
    ),
    "relative_buckets of the past": (
        lambda: scores.RelativeBuckets(5, 6, bidirectional=False),
        lambda table: reference.relative_buckets(table, 5, 6, False),
    ),
    "time_buckets": (
        lambda: scores.TimeBuckets(4, step=0.7),
        lambda table: reference.time_buckets(table, 0.7),
    ),
    "alibi": (scores.Alibi, reference.alibi),
    "rotary": (
        scores.Rotary,
        lambda: reference.rotary(reference.dot(scale=True), 10000, interleaved=False),
    ),
    "rotary, interleaved": (
        lambda: scores.Rotary("dot", base=50, interleaved=True),
        lambda: reference.rotary(reference.dot(), 50, interleaved=True),
    ),
    "qk_norm around rotary": (
        lambda: scores.QkNorm("rotary", norm="layer"),
        lambda *gains: reference.qk_norm(
            reference.rotary(reference.dot(scale=True), 10000, interleaved=False),
            *gains,
            centered=True,
        ),
    ),
    "soft_cap around alibi": (
        lambda: scores.SoftCap(scores.Dot() + scores.Alibi(), cap=2),
        lambda slopes: reference.soft_cap(
            reference.total(reference.dot(), reference.alibi(slopes)), 2
        ),
    ),
    "shared_dot": (
        lambda: scores.SharedDot(self_penalty=-7.0),
        lambda: reference.shared_dot(scale=True, self_penalty=-7.0),
    ),
    "shared_dot of the authors' code": (
        lambda: scores.SharedDot(scale=False, self_penalty=-7.0),
        lambda: reference.shared_dot(scale=False, self_penalty=-7.0),
    ),
}
CASES = CONTENT | POSITIONAL
TWO_SIZES = ("general", "additive", "key_only")  # of scores whose keys may be longer than queries


@pytest.mark.sampled(3)
@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_score_equals_a_loop_over_pairs(name: str, batches: tuple[int, int]) -> None:
    make, pair_score = CASES[name]
    size = 13 if name.startswith(TWO_SIZES) else H
    query, key = normal((batches[0], T, N, H), (batches[1], S, N, size))
    layer = with_random_weights(make(), query, key)
    assert_close(layer(query, key), expected(pair_score(*weights_of(layer)), query, key))


RELATIVE = ["relative_dot, scaled", "relative_buckets", "alibi", "rotary", "shared_dot"]


@pytest.mark.parametrize("sizes", [(1, 1), (1, S), (S, T), (S, S)], ids=str)
@pytest.mark.parametrize("name", RELATIVE)
def test_queries_are_the_last_keys_or_reach_back_before_them(
    name: str, sizes: tuple[int, int]
) -> None:
    make, pair_score = CASES[name]
    query, key = vectors(*sizes)
    layer = with_random_weights(make(), query, key)
    assert_close(layer(query, key), expected(pair_score(*weights_of(layer)), query, key))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("leading", "batches"),
    [((B, N), (B, B)), ((1, N), (B, B)), ((B, 1), (1, B)), ((1, 1), (B, 1)), ((B, N), (1, 1))],
    ids=str,
)
@pytest.mark.parametrize("name", POSITIONAL)
def test_score_equals_a_loop_over_pairs_at_any_positions(
    name: str, leading: tuple[int, int], batches: tuple[int, int]
) -> None:
    make, pair_score = CASES[name]
    query, key = normal((batches[0], T, N, H), (batches[1], S, N, H))
    rows, columns = positions((*leading, T), (1 if leading[1] == 1 else B, 1, S))
    layer = with_random_weights(make(), query, key)
    # Positions of 64 bits, where the natural ones have 32.
    logits = layer(query, key, query_positions=rows.astype("int64"), key_positions=columns)
    wanted = expected(pair_score(*weights_of(layer)), query, key, (rows, columns), batch=B)
    assert_close(np.broadcast_to(logits, (B, N, T, S)), wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", POSITIONAL)
def test_graph_of_unknown_sizes_takes_any_positions(name: str) -> None:
    tf = tensorflow()
    query, key = vectors()
    layer = with_random_weights(CASES[name][0](), query, key)
    per_head = tf.TensorSpec((None, None, N, H))
    places = tf.TensorSpec((None, None, None), "int32")
    graph = tf.function(
        lambda query, key, rows, columns: layer(query, key, None, rows, columns),
        input_signature=[per_head, per_head, places, places],
    )
    for leading in ((B, N), (1, 1)):
        rows, columns = positions((*leading, T), (*leading, S))
        assert_close(graph(query, key, rows, columns), layer(query, key, None, rows, columns))


@pytest.mark.parametrize("name", ["additive", "general"])
def test_every_head_starts_different_and_with_its_own_fan(name: str) -> None:
    query, key = normal((1, T, 2, 64), (1, S, 2, 64))
    layer = get(name)
    layer(query, key)
    first, second = weights_of(layer)[0]
    assert np.abs(first - second).max() > 0.01
    assert np.abs(first).max() == pytest.approx(np.sqrt(6 / 128), rel=0.02)


def test_dot_has_no_bias_unless_asked() -> None:
    layer = scores.Dot()
    layer(*vectors())
    assert not layer.weights


@pytest.mark.parametrize("name", ["dot", "cosine", "mlp", "rotary", "shared_dot"])
def test_vectors_of_two_sizes_cannot_be_compared(name: str) -> None:
    with pytest.raises(ValueError, match=r"vectors of one size.*query size 4, key size 6"):
        get(name)(*normal((B, T, N, 4), (B, S, N, 6)))


def _two_heads(score: scores.Score) -> Any:
    return score(*normal((B, T, N, H), (B, S, 2, H)))


test_wrong_arguments_are_one_sentence = refusals(
    (lambda: _two_heads(scores.General()), "with the same N"),
    (lambda: scores.Additive(units=0), "`units` must be a positive integer"),
    (lambda: scores.Cosine(temperature=0), "`temperature` must be a finite number above 0"),
    (lambda: scores.Mlp(()), "at least one hidden layer"),
    (lambda: scores.Mlp((4, 0)), r"`units\[1\]` must be a positive integer"),
    (lambda: scores.Mlp((4,), activation="rleu"), "Did you mean 'relu'"),
    (lambda: scores.Sum([]), r"at least one score.*scores=\[\]"),
    (lambda: scores.Mixture("dot"), "at least one score.*scores='dot'"),
    (lambda: scores.Sum(["dto"]), "Did you mean 'dot'"),
    (lambda: scores.Mixture([Dice()]), "Expected a score.*Received: <Dice"),
    (lambda: scores.Dot() + 3, "Expected a score.*Received: 3"),
    (lambda: scores.Rotary(Dice()), "Expected a score.*Received: <Dice"),
    (lambda: scores.KeyOnly(units=0), "`units` must be a positive integer"),
    (lambda: scores.KeyOnly(activation="dice"), "would count padded keys"),
    (lambda: scores.KeyOnly(activation="tnah"), "Did you mean 'tanh'"),
    (lambda: scores.RelativeDot(0), "`max_distance` must be a positive integer"),
    (lambda: scores.RelativeDot(4, units=3), "`units` must be even.*units=3"),
    (lambda: scores.RelativeBuckets(7), "`num_buckets` must be even.*num_buckets=7"),
    (
        lambda: scores.RelativeBuckets(32, 8),
        "`max_distance` must be greater.*16 buckets in a direction, max_distance=8",
    ),
    (lambda: scores.RelativeBuckets(2), "at least 2 buckets.*1 buckets in a direction"),
    (lambda: scores.Rotary("alibi"), r"Rotary\(\) \+ Alibi\(\).*type Alibi"),
    (lambda: scores.Rotary(base=1), "`base` must be a finite number above 1"),
    (
        lambda: scores.Rotary()(*normal((B, T, N, 5), (B, S, N, 5))),
        r"the head size must be even\. Received: head size 5",
    ),
    (lambda: scores.Rotary(scores.SoftCap("qk_norm")), r"Use QkNorm\(Rotary\(...\)\)"),
    (lambda: scores.QkNorm(norm="rsm"), "`norm` is not known.*Did you mean 'rms'"),
    (lambda: scores.SoftCap(cap=0), "`cap` must be a finite number above 0"),
    (lambda: scores.SoftCap(scores.Dot() + scores.SharedDot()), "penalty of SharedDot.*Sum"),
    (lambda: scores.Temperature(initial=0.001), "`initial` must be a finite number of at least"),
    (
        lambda: scores.SharedDot(self_penalty=1.0),
        "`self_penalty` must be a finite number at most 0",
    ),
    (lambda: scores.Location(0), "`length` must be a positive integer"),
    (lambda: scores.DenseSynthesizer(4, units=0), "`units` must be a positive integer"),
    (lambda: scores.RandomSynthesizer(-2), "`length` must be a positive integer"),
    (
        lambda: scores.FactorisedDenseSynthesizer(12, factor=5),
        r"`factor` must divide the length.*factor=5, length=12",
    ),
    (lambda: scores.FactorisedRandomSynthesizer(4, rank=0), "`rank` must be a positive"),
)
