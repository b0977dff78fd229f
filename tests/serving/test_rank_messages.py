"""Rank's messages from raw Python values, and back into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from serving.client.rank_messages import make_rank_request, read_rank_response
from serving.common.errors import InvalidArgument, InvalidFeature
from serving.protos import scoring_pb2


def column(values: list[Any] | np.ndarray) -> scoring_pb2.Column:
    return make_rank_request("ctr", {}, {"x": values}).candidates["x"]


@pytest.mark.parametrize(
    ("values", "kind", "sent", "missing", "lengths"),
    [
        (["a", None, "ü"], "strings", ["a", "", "ü"], [1], []),
        ([b"\xff", "a", None], "binaries", [b"\xff", b"a", b""], [2], []),
        ([7, None, -(2**63)], "ints", [7, 0, -(2**63)], [1], []),
        ([np.int32(5), 3], "ints", [5, 3], [], []),
        ([7, 1.5, None], "floats", [7.0, 1.5, 0.0], [2], []),
        ([np.float32(0.5), float("inf") * 0], "floats", [0.5, np.nan], [], []),
        (np.array([1.5, 2.5], "float64"), "floats", [1.5, 2.5], [], []),
        (np.array([[3, 5], [7, 11]]), "ints", [3, 5, 7, 11], [], [2, 2]),
        ([None, None], "ints", [0, 0], [0, 1], []),
        ([["a", None], None, [], ("b",)], "strings", ["a", "", "b"], [1], [2, 0, 0, 1]),
        ([np.array([1.5]), []], "floats", [1.5], [], [1, 0]),
        ([[], None], "ints", [], [], [0, 0]),
    ],
)
def test_a_column_is_of_the_kind_of_its_values(
    values: Any, kind: str, sent: list[Any], missing: list[int], lengths: list[int]
) -> None:
    found = column(values)
    assert found.WhichOneof("values") == kind
    np.testing.assert_array_equal(getattr(found, kind).values, sent)
    assert (list(found.missing), list(found.lengths)) == (missing, lengths)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [True],
            r"expected strings, integers or numbers, or lists of them\. Received: True \(bool",
        ),
        (["a", 5], r"lists of them\. Received: 5 \(int\)"),
        ([5, b"a"], r"lists of them\. Received: b'a' \(bytes\)"),
        ([1, True], r"lists of them\. Received: True \(bool\)"),
        ([{}], r"lists of them\. Received: \{\} \(dict\)"),
        ([[[1]]], r"lists of them\. Received: \[1\] \(list\)"),
        ([[1], 2], r"expected a list for each candidate, as for others\. Received: 2"),
        ([2**63], r"expected an integer from -9223372036854775808 to .*7\. Received: 9"),
        ([0.5, 1e39], r"expected a number, .* from .* to .*\. Received: 1e\+39"),
        (["\ud800"], r"expected valid Unicode\. Received: '\\ud800'"),
    ],
)
def test_what_cannot_travel_is_said_by_name(values: list[Any], message: str) -> None:
    with pytest.raises(InvalidFeature, match=f"Feature 'x': .*{message}"):
        column(values)


def test_candidates_are_rows_or_columns() -> None:
    """Rows may lack features; columns say the same in fewer words."""
    context = {"user": "u7", "seen": ["i1", "i2"], "age": None}
    rows = [{"item": "i1"}, {"item": "i2", "price": 3.5}, {}]
    columns = {"item": ["i1", "i2", None], "price": [None, 3.5, None]}
    request = make_rank_request("ctr", context, rows)
    assert request == make_rank_request("ctr", context, columns)
    assert list(request.context["seen"].lengths) == [2]
    assert set(request.context) == {"user", "seen"}


def test_the_version_and_the_options() -> None:
    request = make_rank_request("ctr", {}, {}, version=0, rank_by="buy", top_k=3, explain=True)
    assert request.model_spec.name == "ctr"
    assert request.model_spec.WhichOneof("version_choice") == "version"
    assert (request.rank_by, request.top_k, request.explain) == ("buy", 3, True)
    labelled = make_rank_request("ctr", {}, {}, version_label="canary").model_spec
    assert labelled.version_label == "canary"
    assert make_rank_request("ctr", {}, {}).model_spec.WhichOneof("version_choice") is None
    with pytest.raises(InvalidArgument, match="Either `version` or `version_label`"):
        make_rank_request("ctr", {}, {}, version=3, version_label="canary")


def test_an_answer_is_read_into_arrays() -> None:
    response = scoring_pb2.RankResponse(ranking=[1, 2, 0])
    response.model_spec.version.value = 7
    response.scores["click"].values.extend([0.25, 0.75, 0.5])
    response.scores["buy"].values.extend([0.5, 0.25, 0.125])
    response.explanation.attention["seen"].width = 2
    response.explanation.attention["seen"].values.extend([1, 2, 3, 4, 5, 6])
    response.explanation.attention["empty"].width = 0
    response.explanation.gates["click"].width = 1
    response.explanation.gates["click"].values.extend([1, 1, 1])
    found = read_rank_response(response)
    assert (found.version, list(found.scores)) == (7, ["buy", "click"])
    np.testing.assert_array_equal(found.scores["click"], np.float32([0.25, 0.75, 0.5]))
    np.testing.assert_array_equal(found.ranking, [1, 2, 0])
    np.testing.assert_array_equal(found.attention["seen"], [[1, 2], [3, 4], [5, 6]])
    assert found.attention["empty"].shape == (3, 0)
    np.testing.assert_array_equal(found.gates["click"], [[1]] * 3)
    plain = read_rank_response(scoring_pb2.RankResponse())
    assert (plain.scores, plain.attention, plain.gates, len(plain.ranking)) == ({}, {}, {}, 0)
