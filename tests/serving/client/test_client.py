"""Raw values become the model's inputs, or one sentence with the feature's name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving.client import Client
from serving.common.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    InvalidFeature,
    NotFound,
    Unavailable,
)
from serving.common.status import State, VersionStatus
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install


@pytest.fixture
def client(shared_address: str) -> Iterator[Client]:
    with Client(shared_address, model="tiny") as connected:
        yield connected


def test_rows_with_everything_and_with_nothing(client: Client) -> None:
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


def test_ranking_equals_scoring_row_by_row(client: Client) -> None:
    context = {"user": "ann", "history": ["a"]}
    candidates = [{"price": 0.5 * i, "tags": ["t"] * (i % 3)} for i in range(11)]
    ranked = client.rank(context, candidates)
    rows = client.predict_rows([{**context, **candidate} for candidate in candidates])
    for task in ("click", "convert"):
        np.testing.assert_array_equal(ranked[task], rows[task])


WRONG_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"usr": "a"}, "Unknown feature 'usr' in row 1. Did you mean 'user'?"),
    "unheard-of": (
        {"zzz": 1}, "Unknown feature 'zzz' in row 1. Features: age, history, price, tags, user.",
    ),
    "number-for-string": (
        {"user": 7}, "Feature 'user': expected a string. Received: 7 (int)",
    ),
    "string-for-integer": (
        {"age": "31"}, "Feature 'age': expected an integer. Received: '31' (str)",
    ),
    "float-for-integer": (
        {"age": 31.0}, "Feature 'age': expected an integer. Received: 31.0 (float)",
    ),
    "truth-for-integer": (
        {"age": True}, "Feature 'age': expected an integer. Received: True (bool)",
    ),
    "too-large": (
        {"age": 2**63}, "Feature 'age': expected an integer from -9223372036854775808 to "
        "9223372036854775807. Received: 9223372036854775808",
    ),
    "string-for-number": (
        {"price": "1.5"}, "Feature 'price': expected a number. Received: '1.5' (str)",
    ),
    "infinite": (
        {"price": -np.inf}, "Feature 'price': expected a finite float32 number, or null where it "
        "is missing. Received: -inf",
    ),
    "infinite-as-float32": (
        {"price": 1e39}, "Feature 'price': expected a finite float32 number, or null where it "
        "is missing. Received: 1e+39",
    ),
    "no-float-at-all": (
        {"price": 10**400}, f"Feature 'price': expected a finite float32 number, or null where "
        f"it is missing. Received: 1{'0' * 76}...",
    ),
    "value-for-list": (
        {"history": "a"}, "Feature 'history': expected a list of string values. "
        "Received: 'a' (str)",
    ),
    "list-for-value": (
        {"price": [1.0]}, "Feature 'price': expected a number. Received: [1.0] (list)",
    ),
    "wrong-in-list": (
        {"history": ["a", 3]}, "Feature 'history': expected a string. Received: 3 (int)",
    ),
    "list-in-list": (
        {"history": [["a"]]}, "Feature 'history': expected a string. Received: ['a'] (list)",
    ),
    "lone-surrogate": (
        {"user": "\ud800"}, r"Feature 'user': not valid Unicode: '\ud800'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_what_cannot_be_right_is_one_sentence(client: Client, case: str) -> None:
    row, sentence = WRONG_ROWS[case]
    with pytest.raises(InvalidFeature) as raised:
        client.predict_rows([{}, row])
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("context", "candidate", "sentence"),
    [
        ({"price": 1}, {}, "Feature 'price' belongs to the candidates. Received in the context."),
        ({}, {"age": 1}, "Feature 'age' belongs to the context. Received in candidate 0."),
        ({"agee": 1}, {}, "Unknown feature 'agee' in the context. Did you mean 'age'?"),
        ({}, {"prise": 1}, "Unknown feature 'prise' in candidate 0. Did you mean 'price'?"),
        ({}, {"tags": [3]}, "Feature 'tags': expected a string. Received: 3 (int)"),
    ],
)
def test_each_side_has_its_features(
    client: Client, context: dict[str, Any], candidate: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidFeature) as raised:
        client.rank(context, [candidate])
    assert str(raised.value) == sentence


def test_nothing_to_score(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="`rows` must hold at least one row"):
        client.predict_rows([])
    with pytest.raises(InvalidArgument, match="`candidates` must hold at least one"):
        client.rank({}, [])


def test_arrays_are_sent_as_they_are(client: Client) -> None:
    pair = np.float32([[1, 2], [3, 5]])
    outputs = client.predict({"pair": pair}, signature_name="pair", output_filter=["total"])
    assert set(outputs) == {"total"}
    np.testing.assert_array_equal(outputs["total"], [3, 8])


def test_errors_of_the_server_have_their_class(client: Client, shared_address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected dtype float32\. Received: float64"):
        client.predict({"pair": np.ones((1, 2))}, signature_name="pair")
    with pytest.raises(FailedPrecondition, match='Serving signature key "score" not found'):
        client.predict({}, signature_name="score")
    ranked = {
        "user": [b"ann"], "age": np.int64([3]), "history": [[b"a"]],
        "price": np.ones((1, 2), np.float32), "tags": np.full((1, 3, 1), b"t"),
    }  # fmt: skip
    with pytest.raises(
        InvalidArgument,
        match=r"the same number of candidates \(second dimension\). Received: "
        r"\{'price': 2, 'tags': 3\}",
    ):
        client.predict(ranked, signature_name="rank")
    with Client(shared_address, model="ctr") as stranger:
        with pytest.raises(NotFound, match="Servable not found for request: Latest"):
            stranger.predict_rows([{}])
        with pytest.raises(NotFound, match="Could not find any versions of model ctr"):
            stranger.status()
    with (
        Client(shared_address, model="tiny", timeout=0.1) as hasty,
        pytest.raises(DeadlineExceeded, match=r"No answer from .* within 0\.1 s"),
    ):
        hasty.predict({"seconds": np.float32([0.5])}, signature_name="wait")


def test_nobody_answers_at_once() -> None:
    begin = time.monotonic()
    with (
        Client("localhost:1", model="tiny") as client,
        pytest.raises(Unavailable, match="Cannot reach localhost:1"),
    ):
        client.predict_rows([{}])
    assert time.monotonic() - begin < 5.0


def test_metadata_and_status(client: Client) -> None:
    metadata = client.metadata()
    assert (metadata.name, metadata.version) == ("tiny", 5)
    assert {"rank", "serving_default", "regress"} < set(metadata.signatures)
    rank = metadata.signature("rank")
    assert list(rank.inputs) == ["age", "history", "price", "tags", "user"]
    assert str(rank.inputs["tags"]) == "string (?, ?, ?)"
    assert (rank.inputs["price"].dtype, rank.inputs["price"].shape) == ("float32", (None, None))
    assert client.status() == [VersionStatus(5, State.AVAILABLE)]


def test_the_only_model_needs_no_name(shared_address: str) -> None:
    with Client(shared_address) as client:
        assert client.model is None, "nobody was asked yet"
        client.status()
        assert client.model == "tiny"
        assert repr(client) == f"Client('{shared_address}', model='tiny', timeout=5.0)"


def test_a_new_version_with_other_inputs_is_noticed(
    base_path: Path, tmp_path: Path, start_server: StartServer
) -> None:
    import tensorflow as tf

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
