"""Scores made of scores: sums and mixtures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import Dense, scores
from tests.support.arrays import assert_close, normal, numpy, weights_of
from tests.support.reference import softmax
from tests.support.references import scores as reference
from tests.support.rounding import ULPS
from tests.support.score_case import B, H, S, expected, vectors, with_random_weights


def test_mixture_equals_a_loop_over_pairs() -> None:
    query, key = vectors()
    parts = ["scaled_dot", {"class_name": "random_synthesizer", "config": {"length": 9}}, "alibi"]
    layer = scores.Mixture(parts)
    layer.build(query.shape, key.shape)
    by_name = {weight.name: weight for weight in layer.weights}
    by_name["proportions"].assign([0.5, -1.0, 2.0])
    pair_score = reference.mixture(
        np.array([0.5, -1.0, 2.0]),
        [
            reference.dot(scale=True),
            reference.random_synthesizer(numpy(by_name["table"])),
            reference.alibi(list(numpy(by_name["slopes"]))),
        ],
    )
    assert_close(layer(query, key), expected(pair_score, query, key))


def test_transformer_xl_is_a_sum() -> None:
    query, key = vectors()
    score = scores.Dot(scale=True, query_bias=True) + scores.RelativeDot(9, scale=True, units=6)
    with_random_weights(score, query, key)
    u, kernel, v = weights_of(score)

    def pair_score(q: np.ndarray, k: np.ndarray, n: int, i: int, j: int) -> float:
        angles = (i - j) * 10000.0 ** (-np.arange(3) / 3)
        place = np.concatenate([np.sin(angles), np.cos(angles)]) @ kernel[n]
        return float((q @ k + q @ place + u[n] @ k + v[n] @ place) / np.sqrt(H))

    assert_close(score(query, key), expected(pair_score, query, key))


def test_key_only_is_han_whatever_the_query() -> None:
    query, words = normal((B, 1, 1, H), (B, S, 1, 6))
    attend = Dense(scores.KeyOnly(activation="tanh"))
    output, _ = attend(query, words, words)
    kernel, bias, vector = (weight[0] for weight in weights_of(attend))
    for b in range(B):
        logits = np.tanh(words[b, :, 0] @ kernel + bias) @ vector[0]
        assert_close(output[b, 0, 0], softmax(logits) @ words[b, :, 0])
    np.testing.assert_array_equal(attend(query * 9, words, words)[0], output)


def test_mixture_starts_with_equal_parts_and_may_be_one() -> None:
    query, key = vectors()
    dot = scores.Dot()
    assert_close(scores.Mixture([dot, dot])(query, key), dot(query, key), atol=1e-6)
    np.testing.assert_allclose(scores.Mixture([dot])(query, key), dot(query, key), rtol=ULPS)


@pytest.mark.parametrize("make", [scores.Sum, scores.Mixture], ids=["sum", "mixture"])
def test_whole_is_positional_or_shared_if_a_part_is(make: Callable[..., scores.Score]) -> None:
    wholes = make(["dot"]), make(["dot", "alibi"]), make(["shared_dot"])
    assert [score.positional for score in wholes] == [False, True, True]
    assert [score.shares_query_and_key for score in wholes] == [False, False, True]


def part(class_name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": config}


@pytest.mark.parametrize(
    "identifier",
    [
        part("mixture", scores=["rotary", "key_only", "location"]),
        part("rotary", score=part("sum", scores=["dot", "key_only"])),
        part("sum", scores=[part("mixture", scores=["shared_dot", "alibi"]), "location"]),
    ],
    ids=lambda identifier: identifier["class_name"],
)
def test_nested_scores_survive_json(identifier: dict[str, Any]) -> None:
    query, key = vectors()
    score = scores.get(identifier, dtype="float32")
    logits = score(query, key)
    revived = scores.get(json.loads(json.dumps(scores.serialize(score))))
    revived.build(query.shape, key.shape)
    revived.set_weights(score.get_weights())
    np.testing.assert_array_equal(revived(query, key), logits)


def test_parts_have_the_precision_of_the_whole() -> None:
    score = scores.get(part("mixture", scores=["dot", "rotary"]), dtype="mixed_bfloat16")
    parts = (*score.scores, score.scores[1].score)
    assert {part.dtype_policy.name for part in parts} == {"mixed_bfloat16"}
