"""Rows as Examples, and the answers of Classify and Regress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from serving.client.examples import encode_examples
from serving.common.errors import InvalidArgument, InvalidFeature
from tests.serving.client.conftest import Connect

ROWS: list[dict[str, Any]] = [
    {"user": "ä", "age": 7, "price": 2.5, "items": ["a", b"b", None], "times": [0.5, 1]},
    {"user": None, "age": np.int32(3), "items": [], "times": np.array([2.0, 3.0])},
    {},
]
READ = {
    "user": tf.io.FixedLenFeature((), tf.string, "?"),
    "age": tf.io.FixedLenFeature((), tf.int64, -1),
    "price": tf.io.FixedLenFeature((), tf.float32, -1.0),
    "items": tf.io.RaggedFeature(tf.string),
    "times": tf.io.RaggedFeature(tf.float32),
}


def _read(examples: Any) -> dict[str, list[Any]]:
    parsed = tf.io.parse_example([example.SerializeToString() for example in examples], READ)
    as_lists = {"items", "times"}
    return {
        name: tensor.to_list() if name in as_lists else tensor.numpy().tolist()
        for name, tensor in parsed.items()
    }


EXPECTED = {
    "user": ["ä".encode(), b"?", b"?"],
    "age": [7, 3, -1],
    "price": [2.5, -1.0, -1.0],
    "items": [[b"a", b"b"], [], []],
    "times": [[0.5, 1.0], [2.0, 3.0], []],
}


def test_tensorflow_reads_the_examples_of_rows_and_tables() -> None:
    assert _read(encode_examples(ROWS).example_list.examples) == EXPECTED
    table = pa.Table.from_pylist(
        [{**row, "items": [b"a", b"b"] if i == 0 else None} for i, row in enumerate(ROWS)],
        pa.schema(
            {
                "user": pa.dictionary(pa.int8(), pa.string()),
                "age": pa.int16(),
                "price": pa.float32(),
                "items": pa.list_(pa.binary()),
                "times": pa.list_(pa.float64()),
            }
        ),
    )
    assert _read(encode_examples(table).example_list.examples) == EXPECTED


@pytest.mark.parametrize("context", [{"user": "ann"}, pa.table({"user": ["ann"]})])
def test_context_is_sent_once(context: Any) -> None:
    sent = encode_examples([{"age": 3}, {"age": 5}], context)
    assert sent.WhichOneof("kind") == "example_list_with_context"
    shared = sent.example_list_with_context
    assert _read([shared.context])["user"] == [b"ann"]
    assert _read(shared.examples)["age"] == [3, 5]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"x": object}, r"Feature 'x': expected a string, an integer, .* Received: .*\(type\)"),
        ({"x": [1, "a"]}, r"Feature 'x': expected a string, .* Received: \[1, 'a'\] \(list\)"),
        ({"x": {}}, r"Feature 'x': expected .* Received: \{\} \(dict\)"),
        ({"x": 2**63}, "Feature 'x': expected an integer from .* Received: 9223372036854775808"),
        ({"x": 1e39}, "Feature 'x': expected a finite float32 number"),
        ({"user": "bo"}, "Feature 'user' belongs to the context. Received in row 1."),
        ({7: 1}, "A feature's name must be a string. Received: 7"),
    ],
)
def test_values_without_an_example_type_are_rejected(row: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidFeature, match=words):
        encode_examples([{}, row], {"user": "ann"})


def test_the_server_reads_the_examples(connect: Connect, shared_address: str) -> None:
    """A regression doubles the price and adds the letters of the name, and 0.5 where shared."""
    handle = connect(shared_address, timeout=20)
    rows = [{"user": "ann", "price": 1.5}, {"price": 2.0}, {}]
    for sent in (rows, pa.Table.from_pylist(rows)):
        values = handle.ask("regress", sent, signature_name="regress")
        np.testing.assert_array_equal(values, np.float32([6, 4, 0]), strict=True)
        outputs = handle.ask("classify", sent, signature_name="classify")
        assert outputs["classes"].tolist() == [["no", "yes"]] * 3
        np.testing.assert_array_equal(outputs["scores"][:, 1], values, strict=True)
    prices = [{"price": 1.5}, {}]
    values = handle.ask("regress", prices, context={"user": "bo"}, signature_name="regress")
    np.testing.assert_array_equal(values, np.float32([5.5, 2.5]), strict=True)
    with pytest.raises(InvalidArgument, match="`rows` must hold at least one row"):
        handle.ask("regress", [])
