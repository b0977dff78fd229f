"""The document of a ranking as a RankRequest; its errors name the key or the feature."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tensorflow_serving.apis import model_pb2

from serving.common.errors import InvalidArgument
from serving.protos import scoring_pb2
from serving.rest.rank_bodies import rank_answer, rank_request
from tests.serving.rank_messages import make_rank_request

SPEC = model_pb2.ModelSpec(name="ctr")
BINARY = {"b64": base64.b64encode(b"\xff").decode()}
CANDIDATES: dict[str, list[Any]] = {
    "strings": ["a", None],
    "ints": [3, -4],
    "floats and integers": [0.5, 2],
    "missing number": [1.5, None],
    "binaries": [b"\xff", "a"],
    "lists": [["a", None, "b"], []],
    "no list": [[1.5], None],
    "nothing": [None, None],
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_values_become_the_columns_of_the_same_values(name: str) -> None:
    values = CANDIDATES[name]
    sent = [BINARY if value == b"\xff" else value for value in values]
    document = {
        "context": {"x": sent[0], "absent": None},
        "candidates": [{"x": value, "id": place} for place, value in enumerate(sent)],
        "rank_by": "click",
        "top_k": 2,
        "explain": True,
    }
    expected = make_rank_request(
        "ctr",
        {"x": values[0]},
        {"x": values, "id": [0, 1]},
        rank_by="click",
        top_k=2,
        explain=True,
    )
    assert rank_request(document, SPEC) == expected


def test_answer_has_a_list_for_each_candidate() -> None:
    weights = {"history": scoring_pb2.Weights(width=3, values=[0.5, 0.25, 0.25, 0.1, 0, 1])}
    fields = {"history.x": scoring_pb2.Scores(values=[0.25, 0.75])}
    explanation = scoring_pb2.Explanation(attention=weights, fields=fields)
    response = scoring_pb2.RankResponse(ranking=[1, 0], explanation=explanation)
    response.scores["click"].values.extend([0.1, 0.7])
    response.model_spec.name, response.model_spec.version.value = "ctr", 7
    assert rank_answer(response) == {
        "model": "ctr",
        "version": 7,
        "scores": {"click": [0.1, 0.7]},
        "ranking": [1, 0],
        "explanation": {
            "attention": {"history": [[0.5, 0.25, 0.25], [0.1, 0.0, 1.0]]}, "gates": {},
            "fields": {"history.x": [0.25, 0.75]},
        },
    }  # fmt: skip


ONE = [{"x": 1}]
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({}, "The body holds the keys []. Expected {\"context\": {...}, \"candidates\": [{...}, ...]}"),
    ({"rows": ONE}, "The body holds rows, which `:predict` scores."),
    ({"candidates": ONE, "rankby": "a"}, "keys ['candidates', 'rankby']. Expected {"),
    ({"candidates": None}, "'candidates' must be a list of objects [{...}, ...]. Received: null"),
    ({"candidates": {"x": {}}}, "'candidates' must be a list of objects"),
    ({"candidates": [], "context": {}}, "`candidates` must hold at least one candidate."),
    ({"candidates": [{}, {}]}, "`candidates`: no candidate has a feature."),
    ({"candidates": ONE, "context": 3}, "'context' must be an object {...}. Received: 3"),
    ({"candidates": ONE, "rank_by": 3}, "'rank_by' must be the name of a task. Received: 3"),
    ({"candidates": ONE, "top_k": -1}, "'top_k' must be a number of candidates, from 0."),
    ({"candidates": ONE, "top_k": True}, "'top_k' must be a number of candidates, from 0."),
    ({"candidates": ONE, "explain": 1}, "'explain' must be true or false. Received: 1"),
    ({"candidates": ONE, "context": {"y": {"values": True}}},
     "Feature 'y' of the context: expected a string, a number, a boolean, null, or a list of "
     "them. Received: {'values': True} (dict)"),
    ({"candidates": [{"x": {"values": [1]}}]}, "Feature 'x' of the candidates: expected a string"),
    ({"candidates": [{"x": {"b64": "?"}}]}, "Feature 'x' of the candidates: expected a string"),
    ({"candidates": [{"x": [["a"]]}]}, "Feature 'x' of the candidates: expected a string"),
    ({"candidates": [{"x": "a"}, {"x": 2}]},
     "Feature 'x' of the candidates: expected values of one kind, such as 'a'. Received: 2 (int)"),
    ({"candidates": [{"x": ["a"]}, {"x": "a"}]},
     "Feature 'x' of the candidates: expected a list, as elsewhere in the request. Received: 'a'"),
    ({"candidates": [{"x": 2**63}]}, "Feature 'x' of the candidates: expected an integer from -9"),
    ({"candidates": [{"x": 1e39}]}, "Feature 'x' of the candidates: expected a finite float32"),
    ({"candidates": [{"x": float("inf")}]}, "number, or an integer where the feature is one"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "words"), ERRORS, ids=[words[-30:] for _, words in ERRORS])
def test_errors_name_the_key_or_the_feature(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        rank_request(document, SPEC)
    assert words in str(raised.value)
