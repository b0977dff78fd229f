"""The body of `:rank` as a RankRequest, and its answer as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow_serving.apis import model_pb2

from serving.common.errors import InvalidArgument
from serving.encoding.features import Row
from serving.encoding.rank_document import RankDocument
from serving.encoding.raw_values import limits, shortened, whole, wrong
from serving.protos import scoring_pb2
from serving.rest.predict_bodies import from_base64, numbers

_SOURCE = "The body"
_EXPECTED = "a string, a number, a boolean, null, or a list of them"
# Kinds of values in JSON, with the field of a column and a value that stands for a missing one.
_FIELDS: Mapping[type, tuple[str, Any]] = {
    str: ("strings", ""),
    bytes: ("binaries", b""),
    int: ("ints", 0),
    float: ("floats", 0.0),
}


def rank_request(document: Mapping[str, Any], spec: model_pb2.ModelSpec) -> scoring_pb2.RankRequest:
    """Returns the message of a document.

    Raises:
        InvalidArgument: The document has another form, or a feature holds a value that no column
            holds; the message names the feature.
    """
    if "rows" in document or "instances" in document:
        raise InvalidArgument(
            f"{_SOURCE} holds rows, which `:predict` scores. `:rank` takes one context and its "
            "candidates."
        )
    rows = RankDocument.read(document, _SOURCE)
    if not rows.candidates:
        raise InvalidArgument("`candidates` must hold at least one candidate. Received: none")
    if not any(rows.candidates):
        raise InvalidArgument("`candidates`: no candidate has a feature.")
    request = scoring_pb2.RankRequest(
        model_spec=spec, rank_by=rows.rank_by, top_k=rows.top_k, explain=rows.explain
    )
    for name, value in rows.context.items():
        if value is not None:
            _fill(request.context[name], name, "the context", [value])
    for name, values in _columns(rows.candidates).items():
        _fill(request.candidates[name], name, "the candidates", values)
    return request


def rank_answer(response: scoring_pb2.RankResponse) -> dict[str, Any]:
    """Returns the document of an answer; each list follows the order of the candidates."""
    spec = response.model_spec
    document: dict[str, Any] = {
        "model": spec.name,
        "version": spec.version.value,
        "scores": {task: _score_list(scores) for task, scores in sorted(response.scores.items())},
        "ranking": list(response.ranking),
    }
    if response.HasField("state"):
        document["state"] = _state(response.state)
    if response.HasField("explanation"):
        document["explanation"] = {
            "attention": _weights(response.explanation.attention),
            "gates": _weights(response.explanation.gates),
            "fields": {
                name: _score_list(one) for name, one in sorted(response.explanation.fields.items())
            },
        }
        events = response.explanation.events
        if events:
            document["explanation"]["events"] = {n: _events(c) for n, c in sorted(events.items())}
    return document


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _fill(column: scoring_pb2.Column, name: str, side: str, rows: list[Any]) -> None:
    """Writes a value, or a list of values, of each row."""
    values = rows
    if any(isinstance(row, list) for row in rows):
        for row in rows:
            if not isinstance(row, list | None):
                raise wrong(name, "a list, as elsewhere in the request", row, side)
        column.lengths.extend(len(row or ()) for row in rows)
        values = [value for row in rows for value in row or ()]
    values = [_decoded(name, side, value) for value in values]
    kind = _kind(name, side, values)
    if kind is float:  # a column of floats has float32, which skips most large integers
        values = _without_fractions(values)
        kind = float if any(isinstance(value, float) for value in values) else int
    field, filler = _FIELDS[kind]
    column.missing.extend(place for place, value in enumerate(values) if value is None)
    entries = [filler if value is None else value for value in values]
    if kind is bytes:
        entries = [value.encode() if isinstance(value, str) else value for value in entries]
    getattr(column, field).values.extend(entries)


def _without_fractions(values: list[Any]) -> list[Any]:
    """Returns numbers as integers, with None for NaN, if all are whole; else as they are."""
    try:
        integers = [None if value is None else whole(value) for value in values]
    except ValueError:
        return values
    return integers if any(value is not None for value in integers) else values


def _decoded(name: str, side: str, value: Any) -> Any:
    """Returns a value, the bytes of `{"b64": "..."}`, or a boolean as a number."""
    if not isinstance(value, dict):
        return int(value) if isinstance(value, bool) else value
    try:
        return from_base64(value)
    except InvalidArgument as error:
        raise wrong(name, _EXPECTED, value, side) from error


def _kind(name: str, side: str, values: Iterable[Any]) -> type:
    """Returns the kind of all values of a feature; integers among floats are floats."""
    kinds: dict[type, Any] = {}
    for value in values:
        if value is not None:
            kinds.setdefault(type(value), value)
            _require_sendable(name, side, value)
    if kinds.keys() <= {int, float}:
        return float if float in kinds else int
    if kinds.keys() <= {str, bytes}:
        return bytes if bytes in kinds else str
    one, other = list(kinds.values())[:2]
    raise wrong(name, f"values of one kind, such as {shortened(one)}", other, side)


def _require_sendable(name: str, side: str, value: Any) -> None:
    if type(value) not in _FIELDS:
        raise wrong(name, _EXPECTED, value, side)
    lowest, highest = limits(np.dtype(np.int64))
    if isinstance(value, int) and not lowest <= value <= highest:
        raise wrong(name, f"an integer from {lowest} to {highest}", value, side)
    if isinstance(value, float) and abs(value) > limits(np.dtype(np.float32))[1]:
        form = "a finite float32 number, or an integer where the feature is one, or null"
        raise wrong(name, f"{form} for a missing value", value, side)


def _state(state: scoring_pb2.StateUse) -> dict[str, Any]:
    lag = state.lag_seconds if state.HasField("lag_seconds") else None
    return {"as_of": state.as_of, "lag_seconds": lag, "is_degraded": state.is_degraded}


def _events(column: scoring_pb2.Column) -> list[Any]:
    """Returns the events of one history; null where one is missing."""
    kind = column.WhichOneof("values")
    values = list(getattr(column, kind).values) if kind else []
    missing = set(column.missing)
    values = [None if place in missing else value for place, value in enumerate(values)]
    return [
        value.decode(errors="replace") if isinstance(value, bytes) else value for value in values
    ]


def _score_list(message: Any) -> Any:
    return numbers(np.array(message.values, np.float32))


def _weights(weights: Mapping[str, scoring_pb2.Weights]) -> dict[str, Any]:
    """Returns the weights of each candidate, by history or task."""
    return {
        name: numbers(np.array(one.values, np.float32).reshape(-1, one.width)) if one.width else []
        for name, one in sorted(weights.items())
    }
