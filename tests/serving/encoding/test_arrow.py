"""An Arrow table is encoded as its rows in dicts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from serving.common.errors import InvalidFeature
from serving.encoding.features import TensorSpec, encode_candidates, encode_rows

STRING, INT, FLOAT = np.dtype(object), np.dtype(np.int64), np.dtype(np.float32)
SPECS = {
    "city": TensorSpec("string", (None,), STRING),
    "age": TensorSpec("int64", (None,), INT),
    "code": TensorSpec("int32", (None,), np.dtype(np.int32)),
    "price": TensorSpec("float32", (None,), FLOAT),
    "words": TensorSpec("string", (None, None), STRING),
    "items": TensorSpec("int64", (None, None), INT),
    "times": TensorSpec("float32", (None, 3), FLOAT),
}
RANK_SPECS = {
    **SPECS,
    "price": TensorSpec("float32", (None, None), FLOAT),
    "words": TensorSpec("string", (None, None, None), STRING),
}
STRINGS = ["ä", None, "", "b\0", "a long one, to be sure of it", "b\0", None]
NUMBERS = [3, None, 0, 120, -7, 5, 2]
DECIMALS = [0.5, None, float("nan"), 2.25, -8.0, 1.0, 0.1]
LISTS = [[2, 3], None, [], [5], [7, None, 11], [13], [None]]
WORDS = [["a", "b"], None, [], [None], ["c"], ["ä", "d", None], ["e"]]

COLUMNS: dict[str, pa.Array] = {
    **{
        f"city as {kind}": pa.array(STRINGS, kind)
        for kind in (
            pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()
        )
    },
    "city as dictionary": pa.array(STRINGS).dictionary_encode(),
    "city as nulls": pa.nulls(7),
    "city as fixed binary": pa.array(
        [b"ab", None, b"cd", b"ab", b"\0\0", b"x\0", None], pa.binary(2)
    ),
    **{
        f"age as {kind}": pa.array(NUMBERS, kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    "age as uint64": pa.array([3, None, 0, 2**63 - 1, 7, 5, 2], pa.uint64()),
    "age as dictionary": pa.array(NUMBERS).dictionary_encode(),
    "code as int64": pa.array(NUMBERS, pa.int64()),
    **{
        f"price as {kind}": pa.array(DECIMALS, kind)
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    "price as int64": pa.array([2**53 + 1, None, 0, 120, -7, 16_777_217, 2]),
    "price as dictionary": pa.array(DECIMALS).dictionary_encode(),
    **{
        f"items as {kind}": pa.array(LISTS, kind)
        for kind in (
            pa.list_(pa.int16()),
            pa.large_list(pa.int64()),
            pa.list_view(pa.int64()),
            pa.list_(pa.dictionary(pa.int8(), pa.int64())),
        )
    },
    "items as fixed": pa.array(
        [[1, 2], None, [3, None], [4, 5], [6, 7], None, [8, 9]], pa.list_(pa.int32(), 2)
    ),
    "items as nulls": pa.nulls(7),
    "items as lists of nulls": pa.array([[], None, [None], [], [], [], [None, None]]),
    "words as strings": pa.array(WORDS, pa.list_(pa.string())),
    "words as dictionary": pa.array(WORDS, pa.large_list(pa.dictionary(pa.int32(), pa.string()))),
    "times as float64": pa.array([[0.5], None, [], [1.0, None, 2.0], [0.1], [0.2], [0.3]]),
}  # fmt: skip


def _expect_equal(received: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(received) == set(expected)
    for name, array in expected.items():
        assert received[name].dtype == array.dtype
        np.testing.assert_array_equal(received[name], array, err_msg=name, strict=True)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_is_encoded_as_its_values(column: str) -> None:
    name, values = column.split()[0], COLUMNS[column]
    table = pa.table({name: values})
    chunks = pa.concat_tables([table.slice(2, 3), table.slice(0, 2), table.slice(5)])
    for form in (table, pa.record_batch({name: values}), table.slice(1, 5), chunks):
        _expect_equal(encode_rows(form, SPECS), encode_rows(form.to_pylist(), SPECS))


def test_numbers_without_nulls_are_not_copied() -> None:
    prices = pa.array([0.5, 2.0, 3.0], pa.float32())
    ages = pa.array([2, 3, 5], pa.int64())
    arrays = encode_rows(pa.record_batch({"price": prices, "age": ages}), SPECS)
    assert np.shares_memory(arrays["price"], prices.to_numpy())
    assert np.shares_memory(arrays["age"], ages.to_numpy())


@pytest.mark.parametrize(
    "context", [{"city": "a", "age": 7}, pa.table({"city": ["a"], "age": [7]})]
)
def test_candidates_in_a_table_are_encoded_as_dicts(context: Any) -> None:
    candidates = pa.table({"price": pa.array(DECIMALS), "words": pa.array(WORDS)})
    expected = encode_candidates({"city": "a", "age": 7}, candidates.to_pylist(), RANK_SPECS, SPECS)
    _expect_equal(encode_candidates(context, candidates, RANK_SPECS, SPECS), expected)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("agee", pa.array([1]), "Unknown feature 'agee' in the rows. Did you mean 'age'?"),
        ("age", pa.array(["1"]), "expected an integer. Received: a column of Arrow type string"),
        ("age", pa.array([1.5]), "expected an integer. Received: 1.5"),
        ("age", pa.array([2**63], pa.uint64()), f"to {2**63 - 1}. Received: {2**63}"),
        ("code", pa.array([5, -(2**31) - 1]), f"from {-(2**31)} to {2**31 - 1}. Received: "),
        ("city", pa.array([7]), "expected a string. Received: a column of Arrow type int64"),
        ("city", pa.array([["a"]]), "expected a string. Received: a column of Arrow type list"),
        ("price", pa.array(["1"]), "expected a number. Received: a column of Arrow type string"),
        ("price", pa.array([0.5, 1e39]), "expected a finite float32 number, or null for a "
         "missing value. Received: 1e+39"),
        ("price", pa.array([-np.inf], pa.float32()), "Received: -inf"),
        ("items", pa.array([1]), "expected a list of int64 values. Received: a column of Arrow"),
        ("words", pa.array([[1]]), "expected a string. Received: a column of Arrow type int64"),
        ("times", pa.array([[0.5] * 5]), "takes at most 3 values. Received: 5"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_named(column: str, values: pa.Array, words: str) -> None:
    with pytest.raises(InvalidFeature) as raised:
        encode_rows(pa.table({column: values}), SPECS)
    assert words in str(raised.value)
    assert repr(column) in str(raised.value)


@pytest.mark.parametrize(
    ("context", "candidates", "words"),
    [
        (pa.table({"age": [1, 2]}), {"price": [1]}, "The context must be one row. Received: 2"),
        (pa.table({"price": [1]}), {"price": [1]}, "'price' belongs to the candidates. Received "
         "in the context."),
        ({}, {"age": [1]}, "'age' belongs to the context. Received in the candidates."),
        ({}, {"prise": [1]}, "Unknown feature 'prise' in the candidates. Did you mean 'price'?"),
        (7, {"price": [1]}, "Expected a dict of features in the context. Received: 7 (int)"),
    ],
)  # fmt: skip
def test_each_side_has_its_own_columns(context: Any, candidates: Any, words: str) -> None:
    with pytest.raises(InvalidFeature) as raised:
        encode_candidates(context, pa.table(candidates), RANK_SPECS, SPECS)
    assert words in str(raised.value)


def test_a_column_must_be_unique() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    with pytest.raises(InvalidFeature, match=r"'age' must be one column\. Received: 2"):
        encode_rows(twice, SPECS)
