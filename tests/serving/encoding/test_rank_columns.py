"""Columns of raw values are encoded as the same values in dicts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from serving.common.errors import InvalidArgument
from serving.encoding.features import TensorSpec, encode_rows
from serving.encoding.rank_columns import MAX_PADDED_ELEMENTS, InputSpec
from serving.protos.scoring_pb2 import Binaries, Column, Floats, Ints, Strings
from tests.serving.rank_messages import make_rank_request

INT_MIN = np.iinfo(np.int64).min
SPECS = {
    "string": TensorSpec("string", (None,), np.dtype(object)),
    "int64": TensorSpec("int64", (None,), np.dtype("int64")),
    "int32": TensorSpec("int32", (None,), np.dtype("int32")),
    "float32": TensorSpec("float32", (None,), np.dtype("float32")),
    "strings": TensorSpec("string", (None, None), np.dtype(object)),
    "int64s": TensorSpec("int64", (None, None), np.dtype("int64")),
    "float32s": TensorSpec("float32", (None, None), np.dtype("float32")),
    "of three": TensorSpec("int64", (None, 3), np.dtype("int64")),
    "of one": TensorSpec("float32", (None, 1), np.dtype("float32")),
}


def array(kind: str, column: Column, one_row: bool = False) -> np.ndarray:
    return InputSpec.of("x", SPECS[kind], 1).array(column, "the candidates", one_row=one_row)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("string", ["a", None, "über", "", "b"]),
        ("string", ["a", b"\xff", None]),
        ("int64", [2**62, None, -5]),
        ("int32", [2**31 - 1, None, -(2**31)]),
        ("float32", [1.5, None, float("nan"), -0.0]),
        ("float32", [7, None, 2**24]),
        ("float32", [None, None, None]),
        ("string", [None]),
        ("strings", [["a", None], [], None, ["b", "c", "d"]]),
        ("strings", [[], None]),
        ("int64s", [[2, 3, 5, 7], [None], [11]]),
        ("float32s", [[0.5], [], [None, 2]]),
        ("of three", [[1], [2, None, 3], []]),
    ],
)
def test_a_column_is_encoded_as_its_values(kind: str, rows: list[Any]) -> None:
    """With the same dtype and padding as `encode_rows`."""
    expected = encode_rows([{"x": value} for value in rows], {"x": SPECS[kind]})["x"]
    found = array(kind, make_rank_request("ctr", {}, {"x": rows}).candidates["x"])
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    absent = InputSpec.of("x", SPECS[kind], 1).missing_rows(3)
    missing = encode_rows([{}, {}, {}], {"x": SPECS[kind]})["x"]
    np.testing.assert_array_equal(absent, missing)
    assert absent.dtype == missing.dtype


def test_lengths_may_be_omitted() -> None:
    """For the one list of a context, and for lists of a fixed length."""
    ints = Column(ints=Ints(values=[2, 3, 5, 7, 11, 13]))
    np.testing.assert_array_equal(array("int64s", ints, True), [[2, 3, 5, 7, 11, 13]])
    np.testing.assert_array_equal(array("of three", ints), [[2, 3, 5], [7, 11, 13]])
    floats = Column(floats=Floats(values=[0.5, 1.5]))
    np.testing.assert_array_equal(array("of one", floats), [[0.5], [1.5]])
    np.testing.assert_array_equal(array("of one", Column(floats=Floats(values=[2])), True), [[2]])
    np.testing.assert_array_equal(array("strings", Column(), True), [[b""]])
    assert array("string", Column()).shape == (0,)
    gone = Column(strings=Strings(values=["", ""]), missing=[1, 0, 1])
    np.testing.assert_array_equal(array("int64", gone), [INT_MIN, INT_MIN])


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        ("int64", Column(floats=Floats(values=[1.5])), r"expected ints\. Received: floats, .*1\.5"),
        ("float32", Column(strings=Strings(values=["1"])), r"floats or ints\. .*: strings, .* '1'"),
        ("string", Column(ints=Ints(values=[1, 2]), missing=[0]), r"or binaries\. .*: ints"),
        ("int32", Column(ints=Ints(values=[7, 2**31])), r"2147483648 is outside int32"),
        ("int64", Column(ints=Ints(values=[7]), missing=[1]), r"`missing` must be places in"),
        ("int64", Column(ints=Ints(values=[7]), missing=[-1]), r"`missing` .*Received: -1 to -1"),
        ("int64", Column(missing=[0]), r"`missing` must be places in the 0 values"),
        ("int64", Column(ints=Ints(values=[7]), lengths=[1]), r"takes one value for each row"),
        ("int64s", Column(ints=Ints(values=[7])), r"takes a list for each candidate"),
        ("of three", Column(ints=Ints(values=[7, 8])), r"takes a list for each candidate"),
        ("int64s", Column(ints=Ints(values=[7]), lengths=[2, -1]), r"not be negative\. .*: -1"),
        ("int64s", Column(ints=Ints(values=[7]), lengths=[1, 1]), r"add up to 2, and 1 values"),
        ("of three", Column(ints=Ints(values=[1] * 4), lengths=[4]), r"at most 3 values\. .*: 4"),
        ("strings", Column(binaries=Binaries(values=[b""] * 3000), lengths=[3000] + [0] * 3000),
         rf"3001 lists of up to 3000 values are too many .*\({MAX_PADDED_ELEMENTS} in all"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_named(kind: str, column: Column, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^Feature 'x' of the candidates: .*{message}"):
        array(kind, column)


def test_floats_outside_a_dtype_are_rejected() -> None:
    """Numbers are sent as float32; too large ones do not become infinite."""
    half = TensorSpec("float16", (None,), np.dtype("float16"))
    double = TensorSpec("float64", (None,), np.dtype("float64"))
    column = Column(floats=Floats(values=[0.5, 1e5, float("inf")]))
    found = InputSpec.of("x", double, 1).array(column, "the context", one_row=False)
    np.testing.assert_array_equal(found, np.float32([0.5, 1e5, np.inf]).astype("float64"))
    with pytest.raises(InvalidArgument, match=r"100000.0 is outside float16"):
        InputSpec.of("x", half, 1).array(column, "the context", one_row=False)


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("float32", None, np.dtype("float32")),
        TensorSpec("float32", (), np.dtype("float32")),
        TensorSpec("float32", (None, 5, 7), np.dtype("float32")),
        TensorSpec("bool", (None,), np.dtype("bool")),
        TensorSpec("DataType 99", (None,), None),
    ],
)
def test_inputs_without_raw_values_are_rejected(spec: TensorSpec) -> None:
    with pytest.raises(InvalidArgument, match=r"'x' of type .* neither values nor lists .*Predict"):
        InputSpec.of("x", spec, 1)
