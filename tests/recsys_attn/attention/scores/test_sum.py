"""Scores of keys alone, scores with a bias, and scores made of scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import Dense, scores
from recsys_attn.blocks import Dice
from tests.support import reference as layers_reference
from tests.support.references import scores as reference
from tests.support.rounding import ULPS
from tests.support.score_case import B, H, N, S, T, arrays, expected, weights, with_random_weights

K = 6
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": layers_reference.relu,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_key_only_equals_a_loop_over_pairs(activation: str, batches: tuple[int, int]) -> None:
    query, key = arrays((batches[0], T, N, H), (batches[1], S, N, K))
    layer = with_random_weights(scores.KeyOnly(3, activation), query, key)
    pair_score = reference.key_only(ACTIVATIONS[activation], *weights(layer))
    np.testing.assert_allclose(
        layer(query, key), expected(pair_score, query, key), rtol=1e-4, atol=1e-5
    )


def test_key_only_is_han_whatever_the_query() -> None:
    query, words = arrays((B, 1, 1, H), (B, S, 1, K))
    attend = Dense(scores.KeyOnly(activation="tanh"))
    output, _ = attend(query, words, words)
    kernel, bias, vector = (weight[0] for weight in weights(attend))
    for b in range(B):
        logits = np.tanh(words[b, :, 0] @ kernel + bias) @ vector[0]
        sentence = layers_reference.softmax(logits) @ words[b, :, 0]
        np.testing.assert_allclose(output[b, 0, 0], sentence, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(attend(query * 9, words, words)[0], output)


@pytest.mark.parametrize("scale", [False, True], ids=["dot", "scaled_dot"])
@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
def test_bias_joins_every_query(scale: bool, batches: tuple[int, int]) -> None:
    query, key = arrays((batches[0], T, N, H), (batches[1], S, N, H))
    layer = scores.Dot(scale, query_bias=True)
    np.testing.assert_array_equal(layer(query, key), scores.Dot(scale)(query, key))
    with_random_weights(layer, query, key)
    pair_score = reference.dot(*weights(layer), scale=scale)
    np.testing.assert_allclose(
        layer(query, key), expected(pair_score, query, key), rtol=1e-4, atol=1e-5
    )


def test_dot_has_no_bias_unless_asked() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    layer = scores.Dot()
    layer(query, key)
    assert not layer.weights


def test_mixture_equals_a_loop_over_pairs() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    parts = ["scaled_dot", {"class_name": "random_synthesizer", "config": {"length": 9}}, "alibi"]
    layer = scores.Mixture(parts)
    layer.build(query.shape, key.shape)
    by_name = {weight.name: weight for weight in layer.weights}
    by_name["proportions"].assign([0.5, -1.0, 2.0])
    pair_score = reference.mixture(
        np.array([0.5, -1.0, 2.0]),
        [
            reference.dot(scale=True),
            reference.random_synthesizer(np.asarray(by_name["table"])),
            reference.alibi(list(np.asarray(by_name["slopes"]))),
        ],
    )
    np.testing.assert_allclose(
        layer(query, key), expected(pair_score, query, key), rtol=1e-4, atol=1e-5
    )


def test_mixture_starts_with_equal_parts_and_may_be_one() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    dot = scores.Dot()
    np.testing.assert_allclose(
        scores.Mixture([dot, dot])(query, key), dot(query, key), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(scores.Mixture([dot])(query, key), dot(query, key), rtol=ULPS)


@pytest.mark.parametrize("make", [scores.Sum, scores.Mixture], ids=["sum", "mixture"])
def test_parts_tell_what_the_whole_looks_at(make: Callable[..., scores.Score]) -> None:
    content, positional, shared = make(["dot"]), make(["dot", "alibi"]), make(["shared_dot"])
    assert (content.positional, positional.positional, shared.positional) == (False, True, True)
    assert [score.shares_query_and_key for score in (content, positional, shared)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "identifier",
    [
        {"class_name": "sum", "config": {"scores": ["scaled_dot", "alibi"]}},
        {"class_name": "mixture", "config": {"scores": ["rotary", "key_only", "location"]}},
        {
            "class_name": "rotary",
            "config": {"score": {"class_name": "sum", "config": {"scores": ["dot", "key_only"]}}},
        },
        {
            "class_name": "sum",
            "config": {
                "scores": [
                    {"class_name": "mixture", "config": {"scores": ["shared_dot", "alibi"]}},
                    "factorised_random_synthesizer",
                ]
            },
        },
    ],
    ids=lambda identifier: identifier["class_name"],
)
def test_scores_of_scores_are_made_of_names_and_read_back(identifier: dict[str, Any]) -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    score = scores.get(identifier, dtype="float32")
    logits = score(query, key)
    config = json.loads(json.dumps(scores.serialize(score)))
    revived = scores.get(config)
    revived.build(query.shape, key.shape)
    revived.set_weights(score.get_weights())
    np.testing.assert_array_equal(revived(query, key), logits)
    assert scores.serialize(revived) == scores.serialize(score)


def test_parts_are_made_with_the_precision_of_the_whole() -> None:
    score = scores.get(
        {"class_name": "mixture", "config": {"scores": ["dot", "rotary"]}}, dtype="mixed_bfloat16"
    )
    rotary = score.scores[1]
    names = {part.dtype_policy.name for part in (*score.scores, rotary.score)}
    assert names == {"mixed_bfloat16"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scores.Sum([]), r"at least one score.*scores=\[\]"),
        (lambda: scores.Mixture("dot"), "at least one score.*scores='dot'"),
        (lambda: scores.Sum(["dto"]), "Did you mean 'dot'"),
        (lambda: scores.Mixture([Dice()]), "Expected a score.*Received: <Dice"),
        (lambda: scores.Dot() + 3, "Expected a score.*Received: 3"),
        (lambda: scores.Rotary(Dice()), "Expected a score.*Received: <Dice"),
        (lambda: scores.KeyOnly(units=0), "`units` must be a positive integer"),
        (lambda: scores.KeyOnly(activation="dice"), "would count padded keys"),
        (lambda: scores.KeyOnly(activation="tnah"), "Did you mean 'tanh'"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
