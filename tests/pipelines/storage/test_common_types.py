"""The type of a column over all files: promoted without rounding, or refused by name."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.storage.common_types import CommonTypes
from recsys_attn.schema import Categorical, Numeric, Sequence

UTC, PARIS = pa.timestamp("s", "UTC"), pa.timestamp("ms", "Europe/Paris")
INT, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()


def _common(*columns, feature=None):
    """The common types of a file for each column, and each column as it is read."""
    schemas = [
        (f"{number}.parquet", pa.schema([("x", column.type)]))
        for number, column in enumerate(columns)
    ]
    types = CommonTypes.of(schemas, {} if feature is None else {"x": feature})
    return [
        types.read(pa.table({"x": column}), where, first_row=100)["x"]
        for (where, _), column in zip(schemas, columns, strict=True)
    ]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.array([1, None]), pa.array([0.5]), DOUBLE),
        (pa.nulls(2), pa.array(["a"]), TEXT),
        (pa.nulls(2), pa.nulls(1), pa.null()),
        (pa.array([7], pa.uint64()), pa.array([-7]), INT),
        (pa.array([True]), pa.array([1], pa.int16()), pa.int16()),
        (pa.array([True]), pa.array([Decimal("0.5")]), pa.decimal128(21, 1)),
        (pa.array([-(2**63)]), pa.array([Decimal("0.5")]), pa.decimal128(21, 1)),
        (pa.array([Decimal("0.5")]), pa.array([1.5]), DOUBLE),
        (pa.array([b"a"]), pa.array(["a"], pa.large_string()), TEXT),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.string_view()), TEXT),
        (pa.array([5], pa.date32()), pa.array([5], pa.timestamp("us")), pa.timestamp("us")),
        (pa.array([5], pa.date32()), pa.array([5], UTC), UTC),
        (pa.array([5], pa.date32()), pa.array([864 * 10**5], pa.date64()), pa.timestamp("ms")),
        (pa.array([0.5], pa.float16()), pa.array([1.5], pa.float32()), pa.float32()),
        (pa.array([[0.5]], pa.list_(pa.float16())), pa.nulls(1), pa.list_(pa.float32())),
        (pa.array([5], pa.timestamp("us")), pa.array([5], PARIS), pa.timestamp("us", "UTC")),
        (pa.array([5], UTC), pa.array([5], PARIS), pa.timestamp("ms", "UTC")),
        (pa.array([[1]], pa.list_(INT, 1)), pa.array([[0.5]]), pa.list_(DOUBLE)),
        (pa.array([[]], pa.large_list(pa.null())), pa.array([["a"]]), pa.list_(TEXT)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
@pytest.mark.parametrize("turned", [False, True])
def test_files_of_two_types_have_one(one, other, expected, turned):
    columns = (other, one) if turned else (one, other)
    for column, read in zip(columns, _common(*columns), strict=True):
        assert read.type == expected
        if pa.types.is_timestamp(expected):
            assert read.combine_chunks().equals(column.cast(expected))
        elif not pa.types.is_binary(column.type):
            assert read.to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([2**53 + 1]), pa.array([0.5])),
        (pa.array([Decimal("0.12345678901234567890")]), pa.array([0.5])),
        (pa.array([2**63], pa.uint64()), pa.array([-1])),
        (pa.array([2**40], pa.timestamp("s")), pa.array([1], pa.timestamp("ns"))),
    ],
    ids=["int64", "decimal", "uint64", "nanoseconds"],
)
def test_no_value_is_rounded(one, other):
    message = rf"^0\.parquet: column 'x' has .*, and 1\.parquet has {other.type}; as .* change"
    with pytest.raises(PipelineError, match=message.replace("[", r"\[")):
        _common(one, other)


@pytest.mark.parametrize("listed", [False, True], ids=["values", "lists"])
@pytest.mark.parametrize("value", [2.0**53 + 2, np.float32(2**24), -(2.0**60), 0.5, np.float16(3)])
def test_no_float_becomes_an_id_of_several_integers(value, listed):
    one, other = pa.array([1.0, value], pa.array([value]).type), pa.array([7, None])
    feature = Categorical("x", dtype="int64", multivalued=listed)
    if listed:
        one, other = (pa.ListArray.from_arrays([0, 1, 2], values) for values in (one, other))
    with pytest.raises(PipelineError, match=r"^0\.parquet: column 'x'.* (change|int64)"):
        _common(one, other, feature=feature)


@pytest.mark.parametrize("inner", [pa.list_view, pa.large_list_view, pa.large_list, pa.list_])
@pytest.mark.parametrize("outer", [pa.list_view, pa.large_list, pa.list_])
def test_lists_of_lists_of_any_layout_are_read(inner, outer):
    rows = [[["a"], ["b", "c"]], None, [], [None, []]]
    column = pa.array(rows, outer(inner(pa.large_string())))
    for part in (column, column[1:], pa.concat_arrays([column[2:], column])):
        (read,) = _common(part)
        assert read.type == pa.list_(pa.list_(TEXT))
        assert read.to_pylist() == part.to_pylist()
        read.validate(full=True)


@pytest.mark.parametrize(
    "other", [pa.array([1]), pa.array([[1]]), pa.array([1], pa.timestamp("s")), pa.array([{}])]
)
def test_types_that_do_not_fit_are_named(other):
    with pytest.raises(PipelineError, match=r"^1\.parquet: column 'x': expected string as in 0\."):
        _common(pa.array(["a"]), other)
    with pytest.raises(PipelineError, match=r"^1\.parquet: column 'x': expected string, received"):
        _common(pa.array(["a"]), other, feature=Categorical("x"))


def test_the_type_of_the_feature_counts():
    large = 2**60 + 1
    read = _common(pa.array([large]), pa.array([3.0]), feature=Categorical("x", dtype="int64"))
    assert [column.to_pylist() for column in read] == [[large], [3]]
    read = _common(pa.array([[large]]), pa.array([[3.0]]), feature=Sequence("x", dtype="int64"))
    assert [column.to_pylist() for column in read] == [[[large]], [[3]]]
    hashes = pa.array([2**64 - 1], pa.uint64())
    assert _common(hashes, pa.array(["a"]), feature=Categorical("x"))[0].to_pylist() == [
        str(2**64 - 1)
    ]
    assert _common(pa.array([1]), pa.array([0.5]), feature=Numeric("x"))[0].type == DOUBLE
    assert _common(pa.nulls(3), feature=Categorical("x", dtype="int64"))[0].type == INT
    with pytest.raises(PipelineError, match=r"1\.parquet: column 'x' has double.*int64"):
        _common(pa.array([1]), pa.array([0.5]), feature=Categorical("x", dtype="int64"))


def _not_utf8(kind):
    """A column whose third text is cut inside a letter."""
    values = pa.array([b"a", None, "é".encode()[:1], b"b"])
    offsets, data = values.buffers()[1:]
    texts = pa.Array.from_buffers(pa.string(), 4, [values.buffers()[0], offsets, data])
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array(range(4)), texts)
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), texts)
    return values if kind == "binary" else texts


@pytest.mark.parametrize("kind", ["string", "binary", "dictionary", "list"])
def test_bytes_that_are_not_utf8_are_named(kind):
    column = pa.chunked_array([_not_utf8(kind)[:1], _not_utf8(kind)[1:]])
    feature = Sequence("x") if kind == "list" else Categorical("x")
    with pytest.raises(PipelineError, match=r"^0\..*'x'.* UTF-8, .*\\xc3.* in row 102; write"):
        _common(column, feature=feature)
    if kind == "binary":  # of no feature, it remains what it is
        assert _common(column)[0].equals(column)
