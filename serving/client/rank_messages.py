"""Rank's messages on the caller's side: built from raw Python values, read into arrays."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.common.errors import InvalidArgument, InvalidFeature
from serving.encoding.features import Row, shortened
from serving.protos import scoring_pb2

_MAX_FLOAT = float(np.finfo("float32").max)
_INTS = np.iinfo("int64")


@dataclass(frozen=True, eq=False)
class Ranking:
    """What Rank answers; N candidates in the order in which they were sent.

    Args:
        scores: By task (N,).
        ranking: The candidates' places from 0, the best first; at most as many as were asked for.
        version: The version that answered.
        attention: By history (N, S), the weight of each of the S events that were sent; empty
            where no explanation was asked for.
        gates: By task (N, E), the share of each expert.
    """

    scores: Mapping[str, np.ndarray]
    ranking: np.ndarray
    version: int
    attention: Mapping[str, np.ndarray]
    gates: Mapping[str, np.ndarray]


def make_rank_request(
    model: str,
    context: Row,
    candidates: Sequence[Row] | Mapping[str, Sequence[Any]],
    *,
    version: int | None = None,
    version_label: str | None = None,
    rank_by: str = "",
    top_k: int = 0,
    explain: bool = False,
) -> scoring_pb2.RankRequest:
    """The request of raw values; the server knows which of them the model takes.

    Args:
        model: Name of the model.
        context: Raw values by feature, or lists of them; None is missing.
        candidates: The same for each candidate, or by feature a value for each candidate.
        version: The latest where neither it nor a label is given.
        version_label: Name of a version.
        rank_by: The task that ranks; the first by name where empty.
        top_k: How many candidates the ranking holds; all where 0.
        explain: Whether to ask what the scores come from.

    Raises:
        InvalidFeature: A value is of no type that travels.
        InvalidArgument: Both a version and a label are given.

    Example:
        make_rank_request("ctr", {"user_id": "u7"}, {"item_id": ["i1", "i2"], "price": [3.5, None]})
    """
    request = scoring_pb2.RankRequest(rank_by=rank_by, top_k=top_k, explain=explain)
    request.model_spec.name = model
    if version is not None and version_label is not None:
        raise InvalidArgument(
            "Either `version` or `version_label` names the version. "
            f"Received: version={version}, version_label={version_label!r}"
        )
    if version is not None:
        request.model_spec.version.value = version
    elif version_label is not None:
        request.model_spec.version_label = version_label
    for name, value in context.items():
        if value is not None:
            _write(request.context[name], name, [value])
    for name, values in _columns(candidates).items():
        _write(request.candidates[name], name, values)
    return request


def read_rank_response(response: scoring_pb2.RankResponse) -> Ranking:
    """The answer as arrays."""
    # A map has no order of its own.
    scores = {
        task: np.array(response.scores[task].values, "float32") for task in sorted(response.scores)
    }
    count = len(next(iter(scores.values()), ()))
    explanation = response.explanation
    return Ranking(
        scores=scores,
        ranking=np.array(response.ranking, "int32"),
        version=response.model_spec.version.value,
        attention=_weights(explanation.attention, count),
        gates=_weights(explanation.gates, count),
    )


def _weights(messages: Mapping[str, scoring_pb2.Weights], count: int) -> dict[str, np.ndarray]:
    return {
        name: np.array(messages[name].values, "float32").reshape(count, messages[name].width)
        for name in sorted(messages)
    }


def _columns(
    candidates: Sequence[Row] | Mapping[str, Sequence[Any]],
) -> Mapping[str, Sequence[Any]]:
    if isinstance(candidates, Mapping):
        return candidates
    names = dict.fromkeys(name for candidate in candidates for name in candidate)
    return {name: [candidate.get(name) for candidate in candidates] for name in names}


def _write(column: scoring_pb2.Column, name: str, rows: Sequence[Any]) -> None:
    """Fills a column with a value, or a list of values, for each row."""
    rows = rows.tolist() if isinstance(rows, np.ndarray) else rows
    lists = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    if any(isinstance(row, list | tuple) for row in lists):
        for row in lists:
            if row is not None and not isinstance(row, list | tuple):
                raise _wrong(name, "expected a list for each candidate, as for others", row)
        column.lengths.extend(len(row or ()) for row in lists)
        lists = [value for row in lists for value in row or ()]
    _write_values(column, name, lists)


def _write_values(column: scoring_pb2.Column, name: str, values: Sequence[Any]) -> None:
    column.missing.extend(place for place, value in enumerate(values) if value is None)
    known = [value for value in values if value is not None] if column.missing else values
    kinds = set(map(type, known))
    if _all_of(kinds, numbers.Integral):
        _check(name, known, _INTS.min, _INTS.max, "an integer")
        column.ints.values.extend([0 if value is None else int(value) for value in values])
    elif _all_of(kinds, numbers.Real):
        _check(name, known, -_MAX_FLOAT, _MAX_FLOAT, "a number, or None where it is missing,")
        column.floats.values.extend([0.0 if value is None else float(value) for value in values])
    elif _all_of(kinds, str):
        for value in known:
            _encoded(name, value)
        column.strings.values.extend(["" if value is None else value for value in values])
    elif _all_of(kinds, str, bytes):
        column.binaries.values.extend([_encoded(name, value or b"") for value in values])
    else:
        first = known[0] if _all_of({type(known[0])}, numbers.Real, str, bytes) else None
        other = next(value for value in known if type(value) is not type(first))
        raise _wrong(name, "expected strings, integers or numbers, or lists of them", other)


def _all_of(kinds: set[type], *wanted: type) -> bool:
    return all(issubclass(kind, wanted) and kind is not bool for kind in kinds)


def _check(name: str, values: Sequence[Any], least: float, most: float, what: str) -> None:
    for value in values:
        if value < least or value > most:  # NaN passes
            raise _wrong(name, f"expected {what} from {least} to {most}", value)


def _encoded(name: str, value: str | bytes) -> bytes:
    try:
        return value if isinstance(value, bytes) else value.encode()
    except UnicodeEncodeError as error:
        raise _wrong(name, "expected valid Unicode", value) from error


def _wrong(name: str, expected: str, value: Any) -> InvalidFeature:
    return InvalidFeature(
        f"Feature {name!r}: {expected}. Received: {shortened(value)} ({type(value).__name__})"
    )
