"""The large REST bodies of `benchmarks/rest_load.py`, and the small one beside them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from serving.config.server_config import ServerConfig
from serving.rest.bodies import LIST_BYTES

MODEL = "logistic_regression"
LARGEST = ServerConfig.rest_api_max_body_bytes
DEPTH = 450  # Python reads lists about twice as deep
ROW = {
    "user": "u", "country": "c", "age": 30, "item": "i", "brand": "b", "price": 1.5, "seen": ["i"],
}  # fmt: skip


class Body(NamedTuple):
    """A body as it is sent, the method that it is for, and its Content-Encoding."""

    method: str
    content: bytes
    encoding: str = "identity"


def bomb() -> Body:
    """Gzip of 90 MB."""
    return Body("predict", gzip.compress(b'{"inputs":[' + b"1," * 45_000_000 + b"1]}"), "gzip")


def largest(method: str, start: str, unit: str, end: str) -> Body:
    """A body with as many units as are allowed, filled up with white space."""
    most = (LARGEST - len(start + end)) // len(f"{unit},")
    if lists_in(unit):
        most = min(most, (LARGEST // LIST_BYTES - lists_in(start)) // lists_in(unit))
    text = start + ",".join([unit] * most) + end
    return Body(method, text.ljust(LARGEST).encode())


def lists_in(text: str) -> int:
    """Lists and objects."""
    return text.count("[") + text.count("{")


SMALL = Body("predict", json.dumps({"instances": [ROW]}).encode())
_OTHERS = {name: [value] for name, value in ROW.items() if name != "price"}
_COLUMNS = json.dumps({"inputs": _OTHERS})[:-2] + ', "price": ['
_RANK = '{"context": {}, "candidates": {"price": {"floats": {"values": ['
_OBJECT = json.dumps(ROW)
CASES: Mapping[str, Callable[[], Body]] = {
    "gzip": bomb,
    "ones": partial(largest, "predict", _COLUMNS, "1", "]}}"),
    "rows": partial(largest, "predict", '{"instances": [', _OBJECT, "]}"),
    "lists": partial(largest, "predict", _COLUMNS, "[" * DEPTH + "]" * DEPTH, "]}}"),
    "classify": partial(largest, "classify", '{"examples": [', _OBJECT, "]}"),
    "rank": partial(largest, "rank", _RANK, "1.5", "]}}}}"),
}
