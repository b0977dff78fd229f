"""Rank: raw features to scores, ranking and explanation, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf

from serving.common.errors import FailedPrecondition, InvalidArgument, ServingError
from serving.inference.rank import read_rank
from serving.inference.service import replay
from serving.models.model import Model
from serving.protos import scoring_pb2, scoring_pb2_grpc
from serving.protos.scoring_pb2 import Column, Floats, Ints
from tests.serving.exports import load_model
from tests.serving.rank_messages import Ranking, make_rank_request, read_rank_response

CONTEXT = {"user": "ann", "age": 31, "history": ["i1", None, "i2"]}
# click = 2 * price + history entries + 100 * tags; convert = letters of the user + age
CANDIDATES = {"price": [1.5, None, -3.0, 7], "tags": [["t"], [], ["t", None, "u"], None]}
CLICK = np.float32([3 + 2 + 100, 2, -6 + 2 + 200, 14 + 2])


def answer(model: Model, request: scoring_pb2.RankRequest) -> Ranking:
    return read_rank_response(replay(model, request).response)


@pytest.fixture(scope="module")
def tiny(twofold: Path) -> Model:
    return load_model("tiny", 5, twofold)


def save(path: Path, *signatures: tuple[str, Callable[..., Any], dict[str, Any]]) -> Model:
    """A model of these signatures, each a function of tensors by these names, dtypes and shapes."""
    module = tf.Module()
    functions = {
        key: tf.function(function).get_concrete_function(
            **{name: tf.TensorSpec(shape, dtype, name) for name, (dtype, shape) in inputs.items()}
        )
        for key, function, inputs in signatures
    }
    tf.saved_model.save(module, str(path), signatures=functions)
    return load_model(path.name, 3, path)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Somebody else's model: rows alone, and outputs that are no scores."""

    def rows(user: Any, seen: Any, price: Any, sizes: Any) -> dict[str, Any]:
        total = price[:, 0] + tf.reduce_sum(sizes, -1)
        known = tf.reduce_sum(tf.cast(seen > 0, tf.float32), -1)
        return {
            "total": total[:, None],
            "known": known + tf.cast(tf.strings.length(user), tf.float32),
            "words": user,
            "vector": tf.concat([sizes, sizes], -1),
            "place": tf.cast(known, tf.int64),
        }

    inputs = {
        "user": (tf.string, (None,)),
        "seen": (tf.int32, (None, None)),
        "price": (tf.float32, (None, 1)),  # as Keras' `Input(shape=(1,))` has it
        "sizes": (tf.float32, (None, 2)),
    }
    return save(tmp_path_factory.mktemp("models") / "foreign", ("serving_default", rows, inputs))


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model with explanations.

    Event i has the weight price + i, experts share 0.25 : 0.75, a field has the weight price / 40.
    """

    def rows(user: Any, seen: Any, price: Any) -> dict[str, Any]:
        return {"click": price + 0 * tf.cast(tf.shape(seen)[1], tf.float32)}

    def explain(user: Any, seen: Any, price: Any) -> dict[str, Any]:
        places = tf.range(tf.cast(tf.shape(seen)[1], tf.float32))
        return {
            **rows(user, seen, price),
            "attention/seen": price[:, :, None] + places + tf.zeros_like(seen)[:, None],
            "gate/click": tf.zeros_like(price)[..., None] + [0.25, 0.75],
            "field/history.seen": price / 40,
        }

    def inputs(*axes: None) -> dict[str, Any]:
        return {
            "user": (tf.string, (None,)),
            "seen": (tf.float32, (None, None)),
            "price": (tf.float32, axes),
        }

    return save(
        tmp_path_factory.mktemp("models") / "explained",
        ("serving_default", rows, inputs(None)),
        ("rank", rows, inputs(None, None)),
        ("rank_explained", explain, inputs(None, None)),
    )


def test_scores_are_in_the_order_of_the_candidates(tiny: Model) -> None:
    found = answer(tiny, make_rank_request("tiny", CONTEXT, CANDIDATES))
    assert list(found.scores) == ["click", "convert"]
    np.testing.assert_allclose(found.scores["click"], CLICK)
    np.testing.assert_allclose(found.scores["convert"], [3 + 31] * 4)
    np.testing.assert_array_equal(found.ranking, [2, 0, 3, 1])  # by click, the first by name
    assert (found.version, found.attention, found.gates) == (5, {}, {})


def test_absent_features_are_missing(tiny: Model) -> None:
    """As if every value had been sent as missing."""
    found = answer(tiny, make_rank_request("tiny", {}, {"price": [1.5, 2.5]}))
    np.testing.assert_allclose(found.scores["click"], [3, 5])
    np.testing.assert_allclose(found.scores["convert"], [0, 0])
    nothing = {"user": None, "age": None, "history": [None]}
    for tags in ([None, None], [None, []], [[None, ""], []]):
        sent = make_rank_request("tiny", nothing, {"price": [1.5, 2.5], "tags": tags})
        for task, scores in answer(tiny, sent).scores.items():
            np.testing.assert_array_equal(scores, found.scores[task])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [2, 0, 3, 1]),
        ({"top_k": 2}, [2, 0]),
        ({"top_k": 9}, [2, 0, 3, 1]),
        ({"rank_by": "click", "top_k": 1}, [2]),
        ({"rank_by": "convert"}, [0, 1, 2, 3]),  # equal scores keep their order
    ],
)
def test_ranking_by_task_and_top_k(
    tiny: Model, options: dict[str, Any], expected: list[int]
) -> None:
    request = make_rank_request("tiny", CONTEXT, CANDIDATES, **options)
    found = answer(tiny, request)
    np.testing.assert_array_equal(found.ranking, expected)
    assert len(found.scores["click"]) == 4


def test_nan_scores_rank_last(explained: Model) -> None:
    prices = [float("nan"), -float("inf"), 2.0, float("inf"), float("nan"), 2.0]
    request = make_rank_request("explained", {}, {"price": [0.0] * 6})
    request.candidates["price"].floats.values[:] = prices
    np.testing.assert_array_equal(answer(explained, request).ranking, [3, 2, 5, 1, 0, 4])


def test_a_model_without_rank_scores_rows(foreign: Model) -> None:
    """Each candidate is a row with the whole context; outputs that are no scores are left out."""
    context = {"user": "ann", "seen": [5, 0, 7]}
    candidates = {"price": [1.5, 0.5, 4], "sizes": [[1, 2], [3, 4], [5, 6]]}
    request = make_rank_request("foreign", context, candidates, rank_by="total", top_k=2)
    found = answer(foreign, request)
    assert list(found.scores) == ["known", "total"]
    np.testing.assert_allclose(found.scores["total"], [4.5, 7.5, 15])
    np.testing.assert_allclose(found.scores["known"], [2 + 3] * 3)
    np.testing.assert_array_equal(found.ranking, [2, 1])
    response = replay(foreign, request).response
    assert response.model_spec.signature_name == "serving_default"
    # Whose side a feature is on is the caller's to say: here each candidate has another user.
    turned = make_rank_request("foreign", {"price": 1.5, "sizes": [1, 2]}, {"user": ["a", "bb"]})
    np.testing.assert_allclose(answer(foreign, turned).scores["known"], [1, 2])


def test_explanation_has_attention_gates_and_fields(explained: Model) -> None:
    candidates = {"price": [10.0, 30.0, 20.0]}
    request = make_rank_request("explained", {"seen": [5, 6]}, candidates, explain=True)
    found = answer(explained, request)
    np.testing.assert_array_equal(found.ranking, [1, 2, 0])
    np.testing.assert_allclose(found.attention["seen"], [[10, 11], [30, 31], [20, 21]])
    np.testing.assert_allclose(found.gates["click"], [[0.25, 0.75]] * 3)
    assert found.scores.keys() == {"click"}
    np.testing.assert_allclose(found.fields["history.seen"], [0.25, 0.75, 0.5])
    response = replay(explained, request).response
    assert response.model_spec.signature_name == "rank_explained"
    request.explain = False
    response = replay(explained, request).response
    assert response.model_spec.signature_name == "rank"
    assert not response.HasField("explanation")


@pytest.mark.parametrize("context", [{}, {"user": "u7", "seen": []}, {"seen": None}])
def test_padding_has_no_attention_weight(explained: Model, context: dict[str, Any]) -> None:
    """An empty history is sent to the model as one missing event, which is not the caller's."""
    request = make_rank_request("explained", context, {"price": [1.0, 2.0]}, explain=True)
    assert answer(explained, request).attention["seen"].shape == (2, 0)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("tiny", {"candidates": {"pirce": [1.5]}}, r"Unknown feature 'pirce' .*mean 'price'\?"),
    ("tiny", {"context": {"userr": "a"}}, r"Unknown feature 'userr' in the context.*'user'\?"),
    ("tiny", {"context": {"price": 1.5}, "candidates": {"tags": [["t"]]}},
     r"Feature 'price' belongs to the candidates\. Received in the context"),
    ("tiny", {"candidates": {"user": ["a"]}}, r"'user' belongs to the context\. .*the candidates"),
    ("tiny", {"context": {"price": 1.5}}, r"'price' is in both the context and the candidates"),
    ("tiny", {"candidates": {}}, r"`candidates` must hold at least one candidate"),
    ("tiny", {"candidates": {"price": []}}, r"`candidates` must hold at least one candidate"),
    ("tiny", {"candidates": {"price": [1, 2], "tags": [["t"]]}},
     r"one row for each candidate\. Received: \{'price': 2, 'tags': 1\}"),
    ("tiny", {"candidates": {"price": ["a"]}}, r"'price' of the candidates: expected floats or i"),
    ("tiny", {"context": {"age": 1.5}}, r"'age' of the context: expected ints\. .*: floats"),
    ("tiny", {"rank_by": "buy"}, r"`rank_by` must be one of the tasks click, convert\. .*: 'buy'"),
    ("tiny", {"top_k": -1}, r"`top_k` must not be negative\. Received: -1"),
    ("foreign", {"candidates": {"price": [1], "nothing": [1]}}, r"Unknown feature 'nothing'"),
    ("foreign", {"context": {"user": "a"}, "candidates": {"user": ["b"]}}, r"'user' is in both"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), BAD)
def test_features_that_do_not_fit_are_rejected(
    request: pytest.FixtureRequest, name: str, change: dict[str, Any], message: str
) -> None:
    arguments = {"context": {}, "candidates": {"price": [1.5]}, **change}
    with pytest.raises(InvalidArgument, match=message):
        read_rank(request.getfixturevalue(name), make_rank_request(name, **arguments))


def test_context_columns_must_have_one_row(tiny: Model, foreign: Model) -> None:
    request = make_rank_request("tiny", {}, {"price": [1.5]})
    request.context["age"].CopyFrom(Column(ints=Ints(values=[7, 11])))
    with pytest.raises(InvalidArgument, match=r"'age' of the context: expected one row\. .*2 val"):
        read_rank(tiny, request)
    request.context["age"].CopyFrom(Column())
    with pytest.raises(InvalidArgument, match=r"'age' of the context: expected one row\. .*0 val"):
        read_rank(tiny, request)
    del request.context["age"]
    request.model_spec.signature_name = "rank"
    with pytest.raises(InvalidArgument, match=r"Rank chooses the signature itself.*'rank'"):
        read_rank(tiny, request)
    large = make_rank_request("foreign", {"seen": [1] * 3000}, {})
    large.candidates["price"].CopyFrom(Column(floats=Floats(values=[1] * 3000)))
    with pytest.raises(InvalidArgument, match=r"'seen' of the context: 3000 values are too many"):
        read_rank(foreign, large)


def test_models_without_scores_cannot_rank(tmp_path: Path) -> None:
    """Without rows, without scores, or with another number of them: the model is at fault."""
    inputs = {"price": (tf.float32, (None,))}
    request = make_rank_request("m", {}, {"price": [1.5, 2.5]})
    other = save(tmp_path / "other", ("other", lambda price: {"out": price}, inputs))
    with pytest.raises(FailedPrecondition, match=r'"serving_default" not found'):
        replay(other, request)

    def words(price: Any) -> dict[str, Any]:
        return {"words": tf.as_string(price), "pair": tf.stack([price, price], 1)}

    wordy = save(tmp_path / "wordy", ("serving_default", words, inputs))
    with pytest.raises(FailedPrecondition, match=r"no output with one number.*: pair, words"):
        replay(wordy, request)

    def uneven(price: Any) -> dict[str, Any]:
        return {"one": price[:1], "both": price}

    short = save(tmp_path / "short", ("serving_default", uneven, inputs))
    with pytest.raises(ServingError, match=r"one number for each candidate\. Received: \{'both'"):
        replay(short, request)


def test_rank_over_grpc(shared_channel: grpc.Channel) -> None:
    """The service answers beside TensorFlow Serving's, with its codes."""
    stub = scoring_pb2_grpc.ScoringServiceStub(shared_channel)
    request = make_rank_request("tiny", CONTEXT, CANDIDATES, version=5, top_k=1)
    response = stub.Rank(request, timeout=10.0)
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("tiny", 5, "rank")
    np.testing.assert_allclose(response.scores["click"].values, CLICK)
    assert list(response.ranking) == [2]
    codes = {
        grpc.StatusCode.NOT_FOUND: make_rank_request("huge", CONTEXT, CANDIDATES),
        grpc.StatusCode.INVALID_ARGUMENT: make_rank_request("tiny", {"x": 1}, CANDIDATES),
        grpc.StatusCode.FAILED_PRECONDITION: make_rank_request(
            "tiny", CONTEXT, CANDIDATES, explain=True
        ),
    }
    for code, bad in codes.items():
        with pytest.raises(grpc.RpcError) as raised:
            stub.Rank(bad, timeout=10.0)
        assert raised.value.code() == code
    with pytest.raises(grpc.RpcError, match="Missing ModelSpec"):
        stub.Rank(scoring_pb2.RankRequest(), timeout=10.0)
