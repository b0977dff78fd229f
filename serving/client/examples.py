"""Raw values as tf.train.Examples, for Classify and Regress.

str and bytes become a bytes_list, integers and booleans an int64_list, other numbers a float_list;
a list keeps all of its values. Absent values and None are not sent. No signature names the features
that a model reads from an Example, so only the values themselves are checked; the server gives them
the type of their feature.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serving.common.errors import InvalidFeature
from serving.encoding.arrow_tables import Table, is_table
from serving.encoding.features import Row, Rows, as_rows, check_rows
from serving.encoding.raw_values import convert, elements, shortened, wrong
from serving.protos import tensorflow_serving_pb2 as pb

_BYTES, _INT64, _FLOAT = np.dtype(object), np.dtype(np.int64), np.dtype(np.float32)
_INTEGERS = (numbers.Integral, np.bool_)
_NUMBERS = (*_INTEGERS, numbers.Real, decimal.Decimal)
_KINDS = ((_BYTES, (str, bytes)), (_INT64, _INTEGERS), (_FLOAT, _NUMBERS))
_ANY = (str, bytes, *_NUMBERS)


def encode_examples(rows: Rows, context: Row | Table | None = None) -> pb.Input:
    """Returns one Example for each row; a context, which they share, is sent once.

    Raises:
        InvalidFeature: A value cannot be sent, or a feature is in a row and in the context.
    """
    message = pb.Input()
    context_rows: Sequence[Row] = []
    if context is not None:
        check_rows(as_rows(context), None, {}, "the context")
        context_rows = _dicts(as_rows(context))
        message.example_list_with_context.context.CopyFrom(_example(context_rows[0]))
    check_rows(rows, None, context_rows[0] if context_rows else {}, "row", "the context")
    examples = message.example_list if context is None else message.example_list_with_context
    examples.examples.extend(map(_example, _dicts(rows)))
    return message


def _dicts(rows: Rows) -> Sequence[Row]:
    """Returns the rows as dicts: each becomes one Example object anyway."""
    return rows.to_pylist() if is_table(rows) else rows


def _example(row: Mapping[str, Any]) -> pb.Example:
    example = pb.Example()
    for name, value in row.items():
        if not isinstance(name, str):
            raise InvalidFeature(f"A feature's name must be a string. Received: {shortened(name)}")
        values = _values(value)
        if values:
            example.features.feature[name].CopyFrom(_feature(name, values))
    return example


def _values(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = elements(value)
    if not isinstance(value, (list, tuple)):
        value = [value]
    return [entry for entry in value if entry is not None]


def _dtype(name: str, values: list[Any]) -> np.dtype[Any]:
    for dtype, kinds in _KINDS:
        if all(isinstance(v, kinds) for v in values):
            return dtype
    odd = [v for v in values if not isinstance(v, _ANY)]
    raise wrong(
        name, "a string, an integer, a float or a list of one of them", (odd or [values])[0]
    )


def _feature(name: str, values: list[Any]) -> pb.Feature:
    dtype = _dtype(name, values)
    entries = convert(name, values, dtype)
    if dtype is _BYTES:
        return pb.Feature(bytes_list=pb.BytesList(value=entries))
    if dtype is _INT64:
        return pb.Feature(int64_list=pb.Int64List(value=entries))
    return pb.Feature(float_list=pb.FloatList(value=entries))
