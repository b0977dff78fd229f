"""Raw values become the model's inputs, or an error of one sentence with the feature's name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.client import Client
from serving.common.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    InvalidFeature,
    NotFound,
    ServingError,
    Unavailable,
)
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install

FINITE = "a finite float32 number, or null for a missing value"
INT64 = "an integer from -9223372036854775808 to 9223372036854775807"


@pytest.fixture
def client(shared_address: str) -> Iterator[Client]:
    with Client(shared_address, model="tiny") as connected:
        yield connected


def test_rows_with_all_values_and_with_none(client: Client) -> None:
    scores = client.predict_rows(
        [
            {"user": "ann", "age": 31, "history": ["a", "b"], "price": 1.5, "tags": ["t"]},
            {},
            {"user": None, "age": None, "history": None, "price": None, "tags": []},
            {"user": b"bo", "history": ("a", None, "c", "d"), "price": 2, "tags": ["t", "u"]},
            {"age": np.int32(7), "price": np.float64(0.5), "history": np.array(["x"])},
        ]
    )
    assert list(scores) == ["click", "convert"]
    np.testing.assert_array_equal(scores["click"], np.float32([105, 0, 0, 207, 2]))
    np.testing.assert_array_equal(scores["convert"], np.float32([34, 0, 0, 2, 7]))


def test_candidates_share_one_context(client: Client) -> None:
    scores = client.rank(
        {"user": "ann", "age": 4, "history": ["a", "b", "c"]},
        [{"price": 1.0, "tags": ["t", "u"]}, {}, {"price": 2, "tags": ["t"]}, {"tags": None}],
    )
    np.testing.assert_array_equal(scores["click"], np.float32([205, 3, 107, 3]))
    np.testing.assert_array_equal(scores["convert"], np.float32([7, 7, 7, 7]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"usr": "a"}, "Unknown feature 'usr' in row 1. Did you mean 'user'?"),
        ({"zz": 1}, "Unknown feature 'zz' in row 1. Features: age, history, price, tags, user."),
        ({"user": 7}, "Feature 'user': expected a string. Received: 7 (int)"),
        ({"user": "\ud800"}, r"Feature 'user': not valid Unicode: '\ud800'"),
        ({"age": "31"}, "Feature 'age': expected an integer. Received: '31' (str)"),
        ({"age": 31.0}, "Feature 'age': expected an integer. Received: 31.0 (float)"),
        ({"age": True}, "Feature 'age': expected an integer. Received: True (bool)"),
        ({"age": 2**63}, f"Feature 'age': expected {INT64}. Received: 9223372036854775808"),
        ({"price": "1.5"}, "Feature 'price': expected a number. Received: '1.5' (str)"),
        ({"price": [1.0]}, "Feature 'price': expected a number. Received: [1.0] (list)"),
        ({"price": -np.inf}, f"Feature 'price': expected {FINITE}. Received: -inf"),
        ({"price": 1e39}, f"Feature 'price': expected {FINITE}. Received: 1e+39"),
        ({"price": 10**400}, f"Feature 'price': expected {FINITE}. Received: 1{'0' * 76}..."),
        (
            {"history": "a"},
            "Feature 'history': expected a list of string values. Received: 'a' (str)",
        ),
        ({"history": ["a", 3]}, "Feature 'history': expected a string. Received: 3 (int)"),
        ({"history": [["a"]]}, "Feature 'history': expected a string. Received: ['a'] (list)"),
    ],
)
def test_invalid_row(client: Client, row: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFeature) as raised:
        client.predict_rows([{}, row])
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("context", "candidate", "message"),
    [
        ({"price": 1}, {}, "Feature 'price' belongs to the candidates. Received in the context."),
        ({}, {"age": 1}, "Feature 'age' belongs to the context. Received in candidate 0."),
        ({"agee": 1}, {}, "Unknown feature 'agee' in the context. Did you mean 'age'?"),
        ({}, {"prise": 1}, "Unknown feature 'prise' in candidate 0. Did you mean 'price'?"),
        ({}, {"tags": [3]}, "Feature 'tags': expected a string. Received: 3 (int)"),
    ],
)
def test_invalid_candidate(
    client: Client, context: dict[str, Any], candidate: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidFeature) as raised:
        client.rank(context, [candidate])
    assert str(raised.value) == message


def test_arrays_are_sent_unchanged(client: Client) -> None:
    pair = np.float32([[1, 2], [3, 5]])
    outputs = client.predict({"pair": pair}, signature_name="pair", output_filter=["total"])
    assert set(outputs) == {"total"}
    np.testing.assert_array_equal(outputs["total"], [3, 8])


TWO_COUNTS = {
    "user": [b"ann"], "age": np.int64([3]), "history": [[b"a"]],
    "price": np.ones((1, 2), np.float32), "tags": np.full((1, 3, 1), b"t"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "words", "inputs", "options"),
    [
        (
            InvalidArgument,
            r"expected dtype float32\. Received: float64",
            {"pair": np.ones((1, 2))},
            {"signature_name": "pair"},
        ),
        (
            InvalidArgument,
            r"the same number of candidates .* Received: \{'price': 2, 'tags': 3\}",
            TWO_COUNTS,
            {"signature_name": "rank"},
        ),
        (
            FailedPrecondition,
            'Serving signature key "score" not found',
            {},
            {"signature_name": "score"},
        ),
        (
            DeadlineExceeded,
            r"No answer from .* within 0\.1 s",
            {"seconds": np.float32([0.5])},
            {"signature_name": "wait", "timeout": 0.1},
        ),
    ],
    ids=["dtype", "candidates", "signature", "deadline"],
)
def test_errors_of_the_server(
    client: Client,
    kind: type[ServingError],
    words: str,
    inputs: dict[str, Any],
    options: dict[str, Any],
) -> None:
    with pytest.raises(kind, match=words):
        client.predict(inputs, **options)


def test_unknown_model(shared_address: str) -> None:
    with Client(shared_address, model="ctr") as client:
        with pytest.raises(NotFound, match="Servable not found for request: Latest"):
            client.predict_rows([{}])
        with pytest.raises(NotFound, match="Could not find any versions of model ctr"):
            client.status()


def test_unreachable_server_fails_fast() -> None:
    begin = time.monotonic()
    with (
        Client("localhost:1", model="tiny") as client,
        pytest.raises(Unavailable, match="Cannot reach localhost:1"),
    ):
        client.predict_rows([{}])
    assert time.monotonic() - begin < 5.0


def test_only_model_needs_no_name(shared_address: str) -> None:
    with Client(shared_address) as client:
        assert client.model is None, "before the first call"
        client.status()
        assert client.model == "tiny"
        assert repr(client) == f"Client('{shared_address}', model='tiny', timeout=5.0)"


def test_new_version_with_other_inputs(
    base_path: Path, tmp_path: Path, start_server: StartServer
) -> None:
    module = tf.Module()
    module.score = tf.function(lambda colour: {"click": tf.strings.length(colour)})
    concrete = module.score.get_concrete_function(tf.TensorSpec((None,), tf.string, "colour"))
    tf.saved_model.save(module, str(tmp_path / "export"), signatures=concrete)
    _, address = start_server(base_path)
    with Client(address, model="tiny") as client:
        client.predict_rows([{"user": "ann"}])
        install(tmp_path / "export", base_path, 6)
        wait_until(lambda: client.metadata().version == 6)
        assert client.predict_rows([{"colour": "red"}])["click"].tolist() == [3]
