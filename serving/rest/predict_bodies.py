"""Predict in JSON: `instances` in rows or `inputs` in columns, and the answer in the same form."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from serving.common.errors import InvalidArgument, Unimplemented
from serving.common.request import Arrays
from serving.encoding.array_values import Misfit
from serving.encoding.codec import MAX_RANK, plain_dtype
from serving.encoding.features import TensorSpec
from serving.encoding.raw_values import (
    exact_limit,
    limits,
    missing_value,
    takes_raw_values,
    whole,
)
from serving.rest.nulls import filled_up, has_null

Inputs = Mapping[str, TensorSpec]
_SHOWN = 200  # characters of a value in an error
_EXACT = {"O": str, "i": int, "f": float}  # types of JSON by the kind of a dtype


def excerpt(value: Any) -> str:
    """Returns the start of a value as JSON, for an error."""
    text = ""
    try:
        for piece in json.JSONEncoder().iterencode(value):
            text += piece
            if len(text) > _SHOWN:
                return text[:_SHOWN] + "..."
    except RecursionError:
        return "nested too deeply"
    return text


def read_inputs(
    document: Mapping[str, Any],
    declared: Inputs,
    takes_missing: bool = False,
    optional: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Returns the arrays of a document, by input name.

    Args:
        document: `{"instances": [...]}` or `{"inputs": ...}`.
        declared: The signature's inputs.
        takes_missing: Whether the model has missing values, for which null stands, and takes
            values of other types that fit.
        optional: The inputs that may be left out, in `instances` of all rows.

    Raises:
        InvalidArgument: Neither form, or values that are not of the input's dtype or shape.
    """
    if "instances" in document and "inputs" in document:
        raise InvalidArgument(
            f"JSON Value: {excerpt(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if "instances" in document:
        columns = _columns_of_rows(document, _without(declared, optional, document["instances"]))
    elif "inputs" in document:
        inputs = document["inputs"]
        columns = _columns(inputs, _without(declared, optional, [inputs]))
    else:
        raise InvalidArgument("Missing 'inputs' or 'instances' key")
    return {
        name: _array(name, value, declared[name], takes_missing) for name, value in columns.items()
    }


def write_outputs(results: Arrays, in_rows: bool) -> dict[str, Any]:
    """Returns the outputs as a document; a single output goes without its name.

    Args:
        results: Arrays by output name.
        in_rows: Whether the request had `instances`; the answer then has `predictions`.
    """
    values = {
        name: _plain(array, as_bytes=name.endswith("_bytes"))
        for name, array in sorted(results.items())
    }
    if not in_rows:
        return {"outputs": values if len(values) > 1 else next(iter(values.values()), {})}
    _check_rows(results)
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    rows = zip(*values.values(), strict=True)
    return {"predictions": [dict(zip(values, row, strict=True)) for row in rows]}


def numbers(array: np.ndarray) -> Any:
    """Returns an array as lists; floats have the digits of their own precision (0.2 as float32)."""
    if array.dtype in (np.float32, np.float16):
        return array.astype(np.str_).astype(np.float64).tolist()
    plain = array.view(plain_dtype(array.dtype))
    return (plain if plain.dtype.isbuiltin == 1 else plain.astype(np.float64)).tolist()


def from_base64(value: Mapping[str, Any]) -> bytes:
    """Returns the bytes of `{"b64": "..."}`."""
    if set(value) != {"b64"} or not isinstance(value["b64"], str):
        raise InvalidArgument(
            f"JSON Value: {excerpt(value)} not formatted correctly for base64 data"
        )
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument("Unable to base64 decode") from error


def _without(declared: Inputs, optional: Collection[str], rows: Any) -> Inputs:
    """Returns the declared inputs without those optional ones that the first row lacks."""
    first = rows[0] if isinstance(rows, list) and rows else None
    sent = set(first) if isinstance(first, dict) else set()
    return {k: spec for k, spec in declared.items() if k in sent or k not in optional}


def _columns_of_rows(document: Mapping[str, Any], declared: Inputs) -> dict[str, list[Any]]:
    rows = document["instances"]
    if not isinstance(rows, list):
        raise InvalidArgument(
            f"JSON Value: {excerpt(document)} Excepting 'instances' to be an list/array"
        )
    if not rows:
        raise InvalidArgument(f"JSON Value: {excerpt(document)} No values in 'instances' array")
    if not _is_object(rows[0]):
        if len(declared) > 1:
            raise InvalidArgument(
                "instances is a plain list, but expecting list of objects as multiple input "
                "tensors required as per tensorinfo_map"
            )
        for i, row in enumerate(rows):
            if _is_object(row):
                raise InvalidArgument(
                    f"Expecting value/list but got object at item {i} of input list"
                )
        return {next(iter(declared)): rows}
    for i, row in enumerate(rows):
        if not _is_object(row):
            raise InvalidArgument(f"Expecting object but got list at item {i} of input list")
        if set(row) != set(declared):
            raise InvalidArgument(
                f"Failed to process element: {i} of 'instances' list. JSON object: {excerpt(row)} "
                f"keys must be equal to: {','.join(sorted(declared))}. "
                f"Missing: {','.join(sorted(declared.keys() - row.keys())) or 'none'}. "
                f"Unknown: {','.join(sorted(row.keys() - declared.keys())) or 'none'}"
            )
    return {name: [row[name] for row in rows] for name in declared}


def _columns(value: Any, declared: Inputs) -> dict[str, Any]:
    if not _is_object(value):
        if len(declared) > 1:
            raise InvalidArgument(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        return {next(iter(declared)): value}
    for name in declared:
        if name not in value:
            raise InvalidArgument(f"Missing named input: {name} in 'inputs' object.")
    return {name: value[name] for name in declared}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(name: str, value: Any, spec: TensorSpec, takes_missing: bool) -> np.ndarray:
    try:
        return _converted(name, value, spec, takes_missing)
    except Misfit as misfit:
        raise InvalidArgument(f"{misfit}. Received in {name!r}") from None


def _converted(name: str, value: Any, spec: TensorSpec, takes_missing: bool) -> np.ndarray:
    dtype = spec.numpy_dtype
    by_rule = takes_missing and takes_raw_values(dtype)
    if has_null(value):
        if not by_rule:
            raise Misfit(
                f"JSON Value: null Type: Null is not of expected type: {spec.dtype}. Null "
                "is a missing value, and this model has none: only exports of this project do"
            )
        value = filled_up(name, value, spec)
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    if len(shape) > MAX_RANK:
        raise Misfit(f"A tensor has at most {MAX_RANK} axes. Received: {len(shape)}")
    leaves: list[Any] = []
    _collect(value, tuple(shape), 0, leaves)
    if dtype is None or dtype.kind == "c" or dtype.isbuiltin != 1:
        raise Unimplemented(f"Conversion of JSON Value: {excerpt(value)} to type: {spec.dtype}")
    if by_rule and set(map(type, leaves)) != {_EXACT[dtype.kind]}:
        missing = missing_value(dtype)
        leaves = [missing if leaf is None else _fitting(leaf, dtype, missing) for leaf in leaves]
    array = np.empty(len(leaves), dtype)
    array[:] = [_checked(leaf, dtype, spec.dtype) for leaf in leaves]
    return array.reshape(shape)


def _fitting(leaf: Any, dtype: np.dtype[Any], missing: Any) -> Any:
    """Returns a value in the type of its feature, if that holds it, by the rule of all values."""
    if dtype.kind == "O" or type(leaf) not in (bool, int, float):
        return leaf
    try:
        if dtype.kind == "f":
            return float(leaf)
        number = whole(leaf)
    except (ValueError, OverflowError):
        return leaf
    return missing if number is None else number


def _collect(value: Any, shape: tuple[int, ...], level: int, leaves: list[Any]) -> None:
    """Appends the values of nested lists, which must all have the shape of the first ones."""
    if not isinstance(value, list):
        if level != len(shape):
            raise Misfit(
                f"JSON Value: {excerpt(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        leaves.append(value)
        return
    if level >= len(shape):
        raise Misfit(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise Misfit(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}. All lists of a request must be equally long"
        )
    for one in value:
        _collect(one, shape, level + 1, leaves)


def _checked(value: Any, dtype: np.dtype[Any], expected: str) -> Any:
    if dtype.kind == "O":
        if isinstance(value, dict):
            return _from_base64(value)
        if isinstance(value, (str, bytes)):  # bytes are the missing value
            return value.encode() if isinstance(value, str) else value
    elif dtype.kind == "b":
        if isinstance(value, bool):
            return value
    elif isinstance(value, bool):
        pass
    elif dtype.kind == "f":
        if isinstance(value, (int, float)):
            return _float(value, dtype)
    elif isinstance(value, int):
        lowest, highest = limits(dtype)
        if lowest <= value <= highest:
            return value
    raise Misfit(
        f"JSON Value: {excerpt(value)} Type: {kind_of(value)} is not of expected type: {expected}"
    )


def _from_base64(value: Mapping[str, Any]) -> bytes:
    try:
        return from_base64(value)
    except InvalidArgument as error:
        raise Misfit(str(error)) from None


def _float(value: float, dtype: np.dtype[Any]) -> float:
    too_large = abs(value) > limits(dtype)[1] and (isinstance(value, int) or math.isfinite(value))
    if too_large or (isinstance(value, int) and abs(value) > exact_limit(dtype)):
        kind = "double" if dtype == np.float64 else "float"
        raise Misfit(
            f"Cannot convert JSON value: {excerpt(value)} to {kind} without loss of precision. "
            f"Expected a number that {dtype.name} holds"
        )
    return value


def kind_of(value: Any) -> str:
    """Returns the JSON name of the kind of a value."""
    if isinstance(value, bool):
        return str(value)
    names = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
    return names.get(type(value), "Number")


def _plain(array: np.ndarray, as_bytes: bool) -> Any:
    if array.dtype != object:
        return numbers(array)
    flat = np.empty(array.size, object)
    flat[:] = [
        {"b64": base64.b64encode(value).decode()} if as_bytes else value.decode(errors="replace")
        for value in array.ravel()
    ]
    return flat.reshape(array.shape).tolist()


def _check_rows(results: Arrays) -> None:
    size = -1
    for name, array in sorted(results.items()):
        if not array.ndim:
            raise InvalidArgument(f"Tensor name: {name} has no shape information ")
        if size not in (-1, len(array)):
            raise InvalidArgument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {size}"
            )
        size = len(array)
