"""Raw values become the model's inputs, or an error of one sentence with the feature's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from serving.client import Client
from serving.common.errors import (
    InvalidFeature,
)

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


STRING, NUMBER = "expected a string. Received:", "expected a number. Received:"
INVALID = [
    ({"usr": "a"}, "Unknown feature 'usr' in row 1. Did you mean 'user'?"),
    ({"zz": 1}, "Unknown feature 'zz' in row 1. Features: age, history, price, tags, user."),
    ({"user": 7}, f"Feature 'user': {STRING} 7 (int)"),
    ({"user": "\ud800"}, r"Feature 'user': not valid Unicode: '\ud800'"),
    ({"age": "31"}, "Feature 'age': expected an integer. Received: '31' (str)"),
    ({"age": 31.5}, "Feature 'age': expected an integer. Received: 31.5 (float)"),
    ({"age": 2**63}, f"Feature 'age': expected {INT64}. Received: 9223372036854775808"),
    ({"price": "1.5"}, f"Feature 'price': {NUMBER} '1.5' (str)"),
    ({"price": [1.0]}, f"Feature 'price': {NUMBER} [1.0] (list)"),
    ({"price": -np.inf}, f"Feature 'price': expected {FINITE}. Received: -inf"),
    ({"price": 1e39}, f"Feature 'price': expected {FINITE}. Received: 1e+39"),
    ({"price": 10**400}, f"Feature 'price': expected {FINITE}. Received: 1{'0' * 76}..."),
    ({"history": "a"}, "Feature 'history': expected a list of string values. Received: 'a' (str)"),
    ({"history": ["a", 3]}, f"Feature 'history': {STRING} 3 (int)"),
    ({"history": [["a"]]}, f"Feature 'history': {STRING} ['a'] (list)"),
    # Context and candidate of a ranking.
    (({"price": 1}, {}), "Feature 'price' belongs to the candidates. Received in the context."),
    (({}, {"age": 1}), "Feature 'age' belongs to the context. Received in candidate 0."),
    (({"agee": 1}, {}), "Unknown feature 'agee' in the context. Did you mean 'age'?"),
    (({}, {"prise": 1}), "Unknown feature 'prise' in candidate 0. Did you mean 'price'?"),
    (({}, {"tags": [3]}), f"Feature 'tags': {STRING} 3 (int)"),
]


@pytest.mark.parametrize(("sent", "message"), INVALID)
def test_invalid_features(client: Client, sent: Any, message: str) -> None:
    is_ranking = isinstance(sent, tuple)
    with pytest.raises(InvalidFeature) as raised:
        client.rank(sent[0], [sent[1]]) if is_ranking else client.predict_rows([{}, sent])
    assert str(raised.value) == message


def test_only_model_needs_no_name(shared_address: str) -> None:
    with Client(shared_address) as client:
        assert client.model is None, "before the first call"
        client.status()
        assert client.model == "tiny"
        assert repr(client) == f"Client('{shared_address}', model='tiny', timeout=5.0)"
