"""Logged calls are decoded to the raw columns they were made of."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.export.raw_inputs import raw_request, raw_rows
from pipelines.export.tf_examples import example_request, example_rows, write_examples
from pipelines.features import FittedFeatures
from pipelines.prediction_log.decode import LoggedRequests, decode
from pipelines.prediction_log.messages import UnreadableCall, batch_shape, parse
from serving.encoding.codec import encode
from serving.state.columns.missing import MISSING_INT
from tests.support import shop
from tests.support.exports import split_requests

SCHEMA = shop.SCHEMA


def record(raw: dict[str, np.ndarray], outputs: dict[str, Any] | None = None) -> bytes:
    log = prediction_log_pb2.PredictionLog()
    for name, array in raw.items():
        encode(array, log.predict_log.request.inputs[name], content=True)
    for name, array in (outputs or {}).items():
        encode(np.asarray(array, "float32"), log.predict_log.response.outputs[name])
    return log.SerializeToString()


def assert_same_inputs(fitted: FittedFeatures, found: LoggedRequests, table: pa.Table) -> None:
    """The model's inputs are those of the table, row for row."""
    rows = found.table("request number")
    for side in ("context", "candidate"):
        expected = fitted.apply(table, side)
        for name, values in fitted.apply(rows, side).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_a_ranked_request_is_itself_again(fitted: FittedFeatures) -> None:
    for table in split_requests(shop.table(21, seed=0, unknown=True)):
        scores = np.linspace(0, 1, table.num_rows, dtype="float32")[None]
        content = record(raw_request(SCHEMA, table), {"click": scores, "other": scores})
        found = decode(content, SCHEMA, grouped=True)
        assert_same_inputs(fitted, found, table)
        assert found.lengths.tolist() == [table.num_rows]
        assert list(found.scores) == ["click"]
        np.testing.assert_array_equal(found.scores["click"], scores[0])
        assert batch_shape(*parse(content)) == (1, table.num_rows)


@pytest.mark.parametrize("make", [raw_rows, example_rows])
@pytest.mark.parametrize("grouped", [True, False])
def test_rows_are_themselves_again(fitted: FittedFeatures, make: Any, grouped: bool) -> None:
    table = shop.table(7, seed=5, unknown=True)
    scores = np.linspace(0, 1, table.num_rows, dtype="float32")
    classes = np.zeros((table.num_rows, 2))
    content = record(make(SCHEMA, table), {"click": scores, "click.scores": classes})
    found = decode(content, SCHEMA, grouped)
    assert_same_inputs(fitted, found, table)
    assert batch_shape(*parse(content)) == (table.num_rows,)
    requests = [part.num_rows for part in split_requests(table)]
    assert found.lengths.tolist() == (requests if grouped else [1] * table.num_rows)
    assert list(found.scores) == ["click"]
    np.testing.assert_array_equal(found.scores["click"], scores)


@pytest.mark.parametrize("kind", ["classify_log", "regress_log", "multi_inference_log"])
def test_examples_are_rows(fitted: FittedFeatures, kind: str) -> None:
    table = shop.table(5, seed=4)
    log = prediction_log_pb2.PredictionLog()
    part = getattr(log, kind)
    part.request.input.example_list.examples.extend(write_examples(SCHEMA.features, table))
    found = decode(log.SerializeToString(), SCHEMA, grouped=True)
    assert_same_inputs(fitted, found, table)
    assert found.scores == {}
    assert batch_shape(*parse(log.SerializeToString())) == (table.num_rows,)


def test_a_context_of_examples_belongs_to_each(fitted: FittedFeatures) -> None:
    (table,) = split_requests(shop.table(1, seed=4))
    log = prediction_log_pb2.PredictionLog()
    with_context = log.regress_log.request.input.example_list_with_context
    of_sides = [
        write_examples([f for f in SCHEMA.features if f.side == side], table)
        for side in ("context", "candidate")
    ]
    with_context.context.CopyFrom(of_sides[0][0])
    with_context.examples.extend(of_sides[1])
    found = decode(log.SerializeToString(), SCHEMA, grouped=True)
    assert_same_inputs(fitted, found, table)
    assert found.lengths.tolist() == [table.num_rows]


@pytest.mark.parametrize("grouped", [True, False])
def test_serialized_candidates_of_a_context_are_one_request(
    fitted: FittedFeatures, grouped: bool
) -> None:
    for table in split_requests(shop.table(7, seed=5, unknown=True)):
        content = record(example_request(SCHEMA, table), {"outputs": np.zeros(table.num_rows)})
        found = decode(content, SCHEMA, grouped)
        assert_same_inputs(fitted, found, table)
        assert found.lengths.tolist() == [table.num_rows]
        assert found.scores == {}


def test_serialized_candidates_inherit_from_context() -> None:
    def serialized(**values: str) -> bytes:
        example = tf.train.Example()
        for name, value in values.items():
            example.features.feature[name].bytes_list.value.append(value.encode())
        return example.SerializeToString()

    context = [serialized(user="ann", brand="of all")]
    candidates = [serialized(), serialized(brand="its own", user="not read")]
    raw = {"context": np.array(context, object), "examples": np.array(candidates, object)}
    found = decode(record(raw), SCHEMA, grouped=True)
    assert found.context["user"].to_pylist() == ["ann"]
    assert found.candidates["brand"].to_pylist() == ["of all", "its own"]


def test_padding_of_lists_is_no_event() -> None:
    """A served user without events has the empty list that the log of training has."""
    (table,) = split_requests(shop.table(1, seed=2))
    raw = raw_request(SCHEMA, table)
    raw["past_items"] = np.array([[7, MISSING_INT, MISSING_INT, MISSING_INT]])
    raw["past_brands"] = np.array([["", "a", "", ""]], object)
    events = decode(record(raw), SCHEMA, grouped=True).context
    assert events["past_items"].to_pylist() == [[7, None]]
    assert events["past_brands"].to_pylist() == [[None, "a"]]
    raw["past_items"], raw["past_brands"] = np.array([[MISSING_INT]]), np.array([[""]], object)
    nothing = decode(record(raw), SCHEMA, grouped=True).context
    assert nothing["past_items"].to_pylist() == nothing["past_brands"].to_pylist() == [[]]


def test_histories_may_be_sent_in_different_lengths(fitted: FittedFeatures) -> None:
    (table,) = split_requests(shop.table(1, seed=2))
    raw = raw_request(SCHEMA, table)
    raw["past_items"] = np.array([[7, 13, 7]])
    raw["past_brands"] = np.array([["a"]], object)
    found = decode(record(raw), SCHEMA, grouped=True)
    assert found.context["past_brands"].to_pylist() == [["a", None, None]]
    assert fitted.apply(found.context, "context")["past_items"].shape == (1, 5)


EMPTY = np.array([b""], object)  # the Example without a feature
CANDIDATES = shop.table(1, seed=2).num_rows


def changed(**changes: np.ndarray | None) -> bytes:
    (table,) = split_requests(shop.table(1, seed=2))
    raw = {**raw_request(SCHEMA, table), **changes}
    return record({name: array for name, array in raw.items() if array is not None})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xff", "no PredictionLog"),
        (b"", "type None is not supported"),
        (changed(user=None), "input 'user' is missing"),
        (changed(user=np.array([3])), "'user' is not of the type string"),
        (
            changed(rating=np.array([["a"] * CANDIDATES], object)),
            "'rating' is not of the type float32",
        ),
        (changed(item=np.array([1])), "ranks"),
        (changed(user=np.array([["a"]], object)), "ranks"),
        (changed(user=np.array(["a", "b"], object)), "sizes differ"),
        (changed(item=np.arange(9)[None]), "sizes differ"),
        (record({"inputs": np.array([b"\xff"], object)}), "'inputs' has bytes that are no tf.Ex"),
        (record({"inputs": np.array([3])}), "input 'inputs' is not of the type string"),
        (
            record({"context": np.array([b""] * 2, object), "examples": EMPTY}),
            "input 'context' is 2 tf.Examples, and not one",
        ),
        (
            record({"context": np.array([b"\xff"], object), "examples": EMPTY}),
            "input 'context' has bytes that are no tf.Example",
        ),
    ],
    ids=range(13),  # the bytes of a message are others in each process
)
def test_unreadable_calls_have_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableCall, match=reason):
        decode(content, SCHEMA, grouped=True)
