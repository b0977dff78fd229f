"""The tables of `docs/reference/value-types.md`: each cell, on every side that takes values."""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import input_pb2, model_pb2, predict_pb2, prediction_log_pb2

from pipelines.ingest.table_checks import check_table
from pipelines.prediction_log.decode import decode as decode_log
from recsys_attn.id_transforms import Quantile
from recsys_attn.schema import Categorical, Schema
from serving.client.examples import encode_examples
from serving.common.errors import InvalidArgument
from serving.encoding.codec import decode, encode
from serving.encoding.features import encode_rows
from serving.encoding.rank_columns import InputSpec
from serving.encoding.tf_examples import fit_examples
from serving.models.signature import Signature
from serving.protos.scoring_pb2 import Binaries, Column, Floats, Ints, Strings
from serving.rest.example_bodies import fill_examples
from serving.rest.predict_bodies import read_inputs
from serving.rest.rank_bodies import rank_request
from serving.state.errors import DataError
from tests.serving.traces import trace

PAGE = (Path(__file__).parents[2] / "docs/reference/value-types.md").read_text("utf-8")
INT_MIN, BEYOND, ROUNDED = -(2**63), 2**63, 2.0**53
KINDS = ("string", "int64", "float32")
NOTHING, REFUSED = "missing", "refused"


class Value(NamedTuple):
    """A value in the forms that some sides have; others have none."""

    python: tuple[Any, ...] = ()
    arrow: str = ""  # the row of the second table
    tensors: tuple[np.ndarray, ...] = ()
    columns: tuple[Column, ...] = ()
    json: tuple[Any, ...] = ()
    in_files: bool = True
    in_requests: bool = True


def _numbers(*types: str, value: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], kind) for kind in types)


def _texts(value: Any) -> np.ndarray:
    return np.array([value], object)


def _whole(value: float, *types: str) -> Value:
    scalars = tuple(np.dtype(kind).type(value) for kind in types)
    return Value((value, *scalars), "float", _numbers(*types, value=value),
                 (Column(floats=Floats(values=[value])),), (value,))  # fmt: skip


NAN = (Column(floats=Floats(values=[math.nan])),)
VALUES: dict[str, Value] = {
    "text": Value(("7", np.str_("7")), "text", (_texts("7"),),
                  (Column(strings=Strings(values=["7"])),), ("7",)),
    "empty text": Value(("",), "text", (_texts(""),), (Column(strings=Strings(values=[""])),),
                        ("",)),
    "bytes in UTF-8": Value(
        ("é".encode(), np.bytes_("é".encode())), "bytes", (_texts("é".encode()),),
        (Column(binaries=Binaries(values=["é".encode()])),),
        ({"b64": base64.b64encode("é".encode()).decode()},),
    ),
    "other bytes": Value(
        (b"\xff",), "bytes", (_texts(b"\xff"),), (Column(binaries=Binaries(values=[b"\xff"])),),
        ({"b64": base64.b64encode(b"\xff").decode()},),
    ),
    "null": Value((None,), "null", (), (Column(ints=Ints(values=[7]), missing=[0]),), (None,)),
    "integer": Value(
        (7, *(np.dtype(kind).type(7) for kind in ("int8", "int16", "int32", "int64", "uint8"))),
        "integer", _numbers("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                            value=7),
        (Column(ints=Ints(values=[7])),), (7,),
    ),
    "smallest int64": Value((INT_MIN, np.int64(INT_MIN)), "int64", _numbers("int64", value=INT_MIN),
                            (Column(ints=Ints(values=[INT_MIN])),), ()),
    "integer beyond int64": Value((np.uint64(BEYOND),), "hash", _numbers("uint64", value=BEYOND)),
    "hash: any uint64": Value((np.uint64(7),), "hash", _numbers("uint64", value=7)),
    "boolean": Value((True, np.True_), "boolean", _numbers("bool", value=True),
                     (Column(ints=Ints(values=[1])),), (True,)),
    "whole float": _whole(7.0, "float32", "float64"),
    "float with a fraction": _whole(1.5, "float32", "float64"),
    "whole float that may be rounded": _whole(ROUNDED, "float32", "float64"),
    "whole half float": Value((np.float16(7),), "half float", _numbers("float16", value=7)),
    "NaN in a request": Value((math.nan, np.float32(math.nan), Decimal("NaN")), "float",
                              _numbers("float32", "float64", value=math.nan),
                              NAN, (math.nan,), in_files=False),
    "NaN in a file": Value((math.nan,), "float", in_requests=False),
    "infinity": _whole(math.inf, "float32", "float64"),
    "number beyond float32": Value((1e39, 10**39), "double", _numbers("float64", value=1e39), (),
                                   (1e39,)),
    "whole decimal": Value((Decimal("7.00"),), "decimal"),
    "decimal with a fraction": Value((Decimal("1.50"),), "decimal"),
    "time": Value((datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1),
                   np.datetime64("2026-01-01"), np.timedelta64(5, "s")), "time"),
}  # fmt: skip
SCALARS = {
    "halffloat": pa.float16(), "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(),
    "fixed_size_binary": None, "decimal32": pa.decimal32(9, 2), "decimal64": pa.decimal64(18, 2),
    "decimal128": pa.decimal128(38, 2), "decimal256": pa.decimal256(76, 2),
}  # fmt: skip
LISTS: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_, "large_list": pa.large_list, "list_view": pa.list_view,
    "large_list_view": pa.large_list_view, "fixed_size_list": lambda kind: pa.list_(kind, 1),
}  # fmt: skip


def _rows(title: str) -> dict[str, list[str]]:
    section = PAGE.split(f"## {title}\n")[1].partition("\n## ")[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in section.splitlines() if "|" in line]
    return {name: cells for name, *cells in rows[2:]}


TAKES, WRITTEN = _rows("What a feature takes"), _rows("How each side writes it")


def _expected(name: str, kind: str) -> Any:
    cell = TAKES[name][1 + KINDS.index(kind)]
    return cell if cell in (NOTHING, REFUSED) else json.loads(cell.strip("`"))


def _arrow_types(row: str) -> list[Any]:
    """The types that the second table names; also the name of one type, `null` or `time`."""
    if row == "time":
        return [pa.date32(), pa.timestamp("us", "UTC"), pa.duration("s")]
    names = re.findall("`(.+?)`", WRITTEN[row][0]) if row in WRITTEN else [row]
    return [SCALARS.get(name) or getattr(pa, name, lambda: None)() for name in names or ["null"]]


def _arrow_arrays(value: Value) -> Iterator[pa.Array]:
    for kind in _arrow_types(value.arrow):
        sent = value.python[0]
        if kind is None:
            kind = pa.binary(len(sent))
        if pa.types.is_temporal(kind):
            sent = 5 if pa.types.is_duration(kind) else datetime.datetime(2026, 1, 1)
        if pa.types.is_float16(kind):
            sent = np.float16(sent)
        array = pa.array([sent], kind)
        yield array
        if not pa.types.is_null(kind):
            yield array.dictionary_encode() if _has_dictionary(kind) else array


def _has_dictionary(kind: pa.DataType) -> bool:
    return not (pa.types.is_float16(kind) or "view" in str(kind) or "decimal" in str(kind))


def _plain(value: Any) -> Any:
    """A value as the table has it: text instead of bytes, and the word for a missing value."""
    found = value.decode() if isinstance(value, bytes) else value
    if isinstance(found, float):
        return NOTHING if math.isnan(found) else found
    return NOTHING if found in (None, "", INT_MIN) else found


def _signature(kind: str, axes: int) -> Signature:
    definition = meta_graph_pb2.SignatureDef()
    info = definition.inputs["x"]
    info.dtype = tf.as_dtype(kind).as_datatype_enum
    for _ in range(axes):
        info.tensor_shape.dim.add(size=-1)
    found = Signature("serving_default", definition, lambda inputs, outputs, trace: dict(inputs))
    found.take_raw_values({"x"})
    return found


SIGNATURES = {(kind, axes): _signature(kind, axes) for kind in KINDS for axes in (1, 2)}


def _through(kind: str, listed: bool, array: np.ndarray) -> Any:
    found = SIGNATURES[kind, 1 + listed].run({"x": array}, (), trace())["x"].ravel().tolist()
    assert len(found) == 1
    return found[0]


def _schema(kind: Any, listed: bool) -> Schema:
    options: dict[str, Any] = {"transform": Quantile()} if kind == "float32" else {}
    return Schema((Categorical("x", dtype=kind, multivalued=listed, **options),), ())


def _of_file(kind: str, listed: bool, column: pa.Array) -> Any:
    table = check_table(pa.table({"x": column}), _schema(kind, listed), "a.parquet", labels=False)
    (found,) = table["x"].combine_chunks().flatten().to_pylist() or [None] if listed else (
        table["x"].to_pylist()
    )  # fmt: skip
    return found


def _of_client(kind: str, listed: bool, rows: Any) -> Any:
    spec = SIGNATURES[kind, 1 + listed].input_specs["x"]
    return _through(kind, listed, encode_rows(rows, {"x": spec})["x"])


def _of_tensor(kind: str, listed: bool, array: np.ndarray) -> Any:
    proto = encode(array[None] if listed else array, predict_pb2.PredictRequest().inputs["x"])
    return _through(kind, listed, decode("x", proto))


def _of_log(kind: str, listed: bool, array: np.ndarray) -> Any:
    log = prediction_log_pb2.PredictionLog()
    encode(array[None] if listed else array, log.predict_log.request.inputs["x"])
    found = decode_log(log.SerializeToString(), _schema(kind, listed), grouped=False)
    (value,) = found.candidates["x"].to_pylist()
    return (value or [None])[0] if listed else value  # a list ends with its last known value


def _of_column(kind: str, listed: bool, column: Column) -> Any:
    if listed:
        column = Column.FromString(column.SerializeToString())
        column.lengths.append(1)
    spec = SIGNATURES[kind, 1 + listed].input_specs["x"]
    array = InputSpec.of("x", spec, 1).array(column, "the candidates", one_row=False)
    return _through(kind, listed, array)


def _of_predict(kind: str, listed: bool, value: Any) -> Any:
    specs = SIGNATURES[kind, 1 + listed].input_specs
    sent = [value] if listed else value
    columns = read_inputs({"inputs": {"x": [sent]}}, specs, takes_missing=True)["x"]
    rows = read_inputs({"instances": [{"x": sent}]}, specs, takes_missing=True)["x"]
    np.testing.assert_array_equal(rows, columns, strict=True)
    return _through(kind, listed, rows)


def _of_rank(kind: str, listed: bool, value: Any) -> Any:
    document = {"candidates": [{"x": [value] if listed else value}]}
    column = rank_request(document, model_pb2.ModelSpec(name="m")).candidates["x"]
    spec = SIGNATURES[kind, 1 + listed].input_specs["x"]
    array = InputSpec.of("x", spec, 1).array(column, "the candidates", one_row=False)
    return _through(kind, listed, array)


def _of_example(kind: str, listed: bool, value: Any) -> Any:
    sent = input_pb2.Input.FromString(encode_examples([{"x": value}]).SerializeToString())
    return _fitted_example(kind, listed, sent)


def _of_classify(kind: str, listed: bool, value: Any) -> Any:
    sent = input_pb2.Input()
    fill_examples({"examples": [{"x": value}]}, sent)
    return _fitted_example(kind, listed, sent)


def _fitted_example(kind: str, listed: bool, sent: input_pb2.Input) -> Any:
    fit_examples(sent, SIGNATURES[kind, 1 + listed].input_specs)
    feature = sent.example_list.examples[0].features.feature
    if "x" not in feature:
        return None
    name = {"string": "bytes_list", "int64": "int64_list", "float32": "float_list"}[kind]
    (found,) = getattr(feature["x"], name).value
    return found


def _sides(value: Value, listed: bool, is_taken: bool) -> Iterator[tuple[str, Any, Any]]:
    """The name of each side that has the value, its function, and the value in its form."""
    makes = list(LISTS.values()) if listed else [None]
    for array, make in itertools.product(_arrow_arrays(value), makes):
        column = array if make is None else _listed(array, make)
        if column is None:
            continue
        if value.in_files:
            yield f"file {column.type}", _of_file, column
        if value.in_requests:
            yield f"table {column.type}", _of_client, pa.table({"x": column})
    if not value.in_requests:
        return
    for one in value.python:
        yield f"client {one!r}", _of_client, [{"x": [one] if listed else one}]
        if not isinstance(one, np.uint64 | np.float16):  # in an Example it is a float32
            yield f"example {one!r}", _of_example, one
    for array in value.tensors:
        yield f"tensor {array.dtype}", _of_tensor, array
        if is_taken:  # others are never logged
            yield f"log {array.dtype}", _of_log, array
    for column in value.columns:
        yield "column", _of_column, column
    for one in value.json:
        yield f":predict {one!r}", _of_predict, one
        yield f":rank {one!r}", _of_rank, one
        if one is not None:
            yield f":classify {one!r}", _of_classify, one


def _listed(array: pa.Array, make: Callable[[pa.DataType], pa.DataType]) -> pa.Array | None:
    kind = make(array.type)
    try:
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(array, 1)
        parts = {"list": pa.ListArray, "large_list": pa.LargeListArray}
        views = {"list_view": pa.ListViewArray, "large_list_view": pa.LargeListViewArray}
        name = str(kind).partition("<")[0]
        if name in views:
            return views[name].from_arrays([0], [1], array)
        return parts[name].from_arrays([0, 1], array)
    except pa.ArrowException:
        return None


def test_tables_and_samples_name_the_same_values() -> None:
    assert TAKES.keys() == VALUES.keys()
    assert {"text", "bytes", "integer", "hash", "boolean", "float", "decimal"} < WRITTEN.keys()
    assert set(re.findall("`(.+?)`", WRITTEN["list"][0])) == LISTS.keys()


@pytest.mark.parametrize("listed", [False, True], ids=["single", "list"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VALUES)
def test_value_has_one_meaning_on_every_side(name: str, kind: str, listed: bool) -> None:
    expected, sides, wrong = _expected(name, kind), 0, []
    for side, read, sent in _sides(VALUES[name], listed, expected != REFUSED):
        sides += 1
        try:
            found = _plain(read(kind, listed, sent))
        except (InvalidArgument, DataError) as error:
            found = REFUSED
            named = re.search(r"'x'|input x:|Feature: x", str(error))
            if not (named and re.search("[Ee]xpected", str(error))):
                wrong.append(f"{side}: {error}")
        if found != expected:
            wrong.append(f"{side}: {found!r}")
    assert sides
    assert not wrong, f"expected {expected!r}:\n" + "\n".join(wrong)
