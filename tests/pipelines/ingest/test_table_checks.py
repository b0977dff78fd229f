"""Tables against the schema: casts and errors."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.table_checks import check_table
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.id_transforms import Quantile
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError

SCHEMA = Schema(
    features=(
        Categorical("city"),
        Categorical("item", dtype="int64"),
        Categorical("bid", dtype="float32", transform=Quantile(3)),
        Categorical("tags", multivalued=True),
        Numeric("price"),
        Sequence("clicked", shares="item", dtype="int64"),
    ),
    tasks=(Task("click"), Task("buy", label="bought", mask="asked")),
)


def _columns(**changed):
    columns = {
        "city": pa.array(["Rome", None, ""]),
        "item": pa.array([1, None, 3], pa.int64()),
        "bid": pa.array([0.5, None, 1.5], pa.float64()),
        "tags": pa.array([["a", None], None, []], pa.list_(pa.string())),
        "price": pa.array([1.0, None, 2.0], pa.float32()),
        "clicked": pa.array([[1], None, [2, 3]], pa.list_(pa.int64())),
        "click": pa.array([0, 1, None], pa.int8()),
        "bought": pa.array([1.0, 0.0, None]),
        "asked": pa.array([True, True, False]),
        "extra": pa.array([1, 2, 3]),
    }
    return pa.table(columns | changed)


def test_valid_table_is_unchanged():
    checked = check_table(_columns(), SCHEMA, "here")
    for name in ("city", "item", "tags", "price", "clicked", "click", "asked", "extra"):
        assert checked[name].equals(_columns()[name])
    assert checked["bid"].type == pa.float32()
    assert checked["bought"].to_pylist() == [1, 0, None]
    assert checked["bought"].type == pa.int8()


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("item", pa.array([1, 2, 3], pa.uint8()), [1, 2, 3]),
        ("item", pa.array([1.0, None, 3.0]), [1, None, 3]),
        ("item", pa.nulls(3), [None] * 3),
        ("item", pa.array([True, None, False]), [1, None, 0]),
        ("item", pa.array([Decimal(1), None, Decimal(3)], pa.decimal32(5, 2)), [1, None, 3]),
        ("city", pa.array([b"x", None, b"y"]), ["x", None, "y"]),
        ("city", pa.array(["x", None, "y"], pa.string_view()), ["x", None, "y"]),
        ("city", pa.array([2**64 - 1, None, 0], pa.uint64()), [str(2**64 - 1), None, "0"]),
        ("price", pa.array([Decimal("0.5"), None, Decimal(2)]), [0.5, None, 2.0]),
        ("price", pa.array([1.0, None, 0.5], pa.float16()), [1.0, None, 0.5]),
        ("tags", pa.array([["x"], None, ["y"]], pa.list_(pa.string(), 1)), [["x"], None, ["y"]]),
        ("clicked", pa.array([[1], None, []], pa.list_view(pa.float64())), [[1], None, []]),
        (
            "clicked",
            pa.ListArray.from_arrays([0, 1, 1, 2], pa.array([1, 2]).dictionary_encode()),
            [[1], [], [2]],
        ),
        ("city", pa.array(["x", None, "y"]).dictionary_encode(), ["x", None, "y"]),
        ("price", pa.array([1, None, 2**40]), [1.0, None, float(2**40)]),
        ("clicked", pa.array([[1], None, [2, None]], pa.list_(pa.int32())), [[1], None, [2, None]]),
        ("click", pa.array([True, False, None]), [1, 0, None]),
        ("click", pa.array([1.0, 0.0, None], pa.float32()), [1, 0, None]),
    ],
)
def test_types_are_widened_without_loss(name, values, expected):
    table = _columns(**{name: values})
    assert check_table(table, SCHEMA, "here")[name].to_pylist() == expected
    sliced = check_table(table.slice(1), SCHEMA, "here")
    assert sliced[name].to_pylist() == expected[1:]


def test_a_missing_column_of_another_name_names_the_key():
    schema = raw_columns(Schema((Numeric("price_number", column="prise"),), SCHEMA.tasks))
    message = r"'prise' \(`column` of a feature, float32\) is missing\. Did you mean 'price'\?"
    with pytest.raises(DataError, match=message):
        check_table(_columns(), schema, "here")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            _columns().drop_columns(["asked"]),
            r"the column 'asked' \(mask, 0 or 1 or bool\) is missing",
        ),
        (
            _columns(city=pa.array([1, 2, 3])),
            "column 'city': expected string, received int64. Declare it with dtype = \"int64\"",
        ),
        (_columns(item=pa.array(["1", "2", "3"])), "column 'item': expected int64, received str"),
        (_columns(item=pa.array([1.5, 2.0, 3.0])), "expected int64, received double with a value"),
        (_columns(item=pa.array([[1], [2], [3]])), 'received list<.*>. A list .* "sequence"'),
        (
            _columns(item=pa.array([2**64 - 1, 1, 2], pa.uint64())),
            r'uint64 with a value .* Declare it with dtype = "string": hashes of 64 bits',
        ),
        (_columns(item=pa.array([1.0, 2.0, 3.0], pa.float16())), "int64, received halffloat. Decl"),
        (_columns(clicked=pa.array([[1.0]] * 3, pa.list_(pa.float16()))), "expected list<int64>"),
        (_columns(price=pa.array([[0.5]] * 3)), "received list.* A vector is not one feature"),
        (_columns(item=pa.array([[0.5]] * 3)), "received list.* A vector is not one feature"),
        (_columns(tags=pa.array([[1]] * 3)), r'expected list<string>, .* dtype = "int64"'),
        (_columns(clicked=pa.array([[[1]]] * 3)), r"one list of single values; write the inner"),
        (_columns(item=pa.array([1, 2, 3], pa.timestamp("s"))), "Write the date as a text"),
        (_columns(price=pa.array([1.0, np.nan, 2.0])), "received nan in row 1001; store null"),
        (_columns(price=pa.array([1.0, 2.0, 1e300])), r"1e\+300 in row 1002 does not fit float32"),
        (_columns(asked=pa.array([1, 2, 0])), "a mask of 0, 1 or null .* received 2 in row 1001"),
        (_columns(click=["yes", "no", ""]), "label of 0, 1 or null, received string. Write 1 for"),
        (_columns(click=[1.0, 0.7, 0.0]), "received 0.7 in row 1001. Write 1 for yes, 0 for no"),
    ],
)
def test_one_clear_error(table, message):
    with pytest.raises(DataError, match=message):
        check_table(table, SCHEMA, "data.csv", first_row=1000)


def test_sequences_of_one_history_are_equally_long():
    schema = Schema((*SCHEMA.features, Sequence("kinds", dtype="string")), SCHEMA.tasks)
    kinds = [["a"], None, ["b", None]]
    check_table(_columns(kinds=kinds), schema, "here")
    for wrong in ([["a"], ["b"], ["b", "c"]], [["a"], None, ["b"]]):
        message = r"here: columns 'clicked' and 'kinds': expected lists .* in row 10\d; align them"
        with pytest.raises(DataError, match=message):
            check_table(_columns(kinds=wrong), schema, "here", first_row=100)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.bool_()], ids=str)
def test_a_mask_of_numbers_is_false_where_it_is_null(kind):
    table = _columns(asked=pa.array([1, None, 0]).cast(kind))
    asked = check_table(table, SCHEMA, "here")["asked"]
    assert asked.type == pa.bool_()
    assert asked.to_pylist() == [True, False, False]


def test_a_mask_that_is_a_label_stays_a_label() -> None:
    schema = Schema((Categorical("item"),), (Task("click"), Task("buy", mask="click")))
    table = pa.table({"item": ["a", "b", "c"], "click": [1, 0, None], "buy": [1, None, None]})
    checked = check_table(table, schema, "file.parquet")
    assert checked["click"].type == pa.int8()
    assert checked["click"].to_pylist() == [1, 0, None]
