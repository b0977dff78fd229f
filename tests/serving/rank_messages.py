"""Messages of Rank, written from raw Python values and read into arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serving.client.ranking import Ranking
from serving.protos import scoring_pb2

Candidates = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]]


def make_rank_request(
    model: str,
    context: Mapping[str, Any],
    candidates: Candidates,
    *,
    version: int | None = None,
    **options: Any,
) -> scoring_pb2.RankRequest:
    """A request of raw values: candidates are dicts, or the values of all of them by feature."""
    request = scoring_pb2.RankRequest(**options)
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = version
    for name, value in context.items():
        if value is not None:
            _write(request.context[name], [value])
    if not isinstance(candidates, Mapping):
        names = dict.fromkeys(name for candidate in candidates for name in candidate)
        candidates = {name: [one.get(name) for one in candidates] for name in names}
    for name, values in candidates.items():
        _write(request.candidates[name], values)
    return request


def read_rank_response(response: scoring_pb2.RankResponse) -> Ranking:
    scores = {
        task: np.array(response.scores[task].values, "float32") for task in sorted(response.scores)
    }
    count = len(next(iter(scores.values()), ()))
    return Ranking(
        scores,
        np.array(response.ranking, "int32"),
        response.model_spec.version.value,
        _weights(response.explanation.attention, count),
        _weights(response.explanation.gates, count),
        {
            name: np.array(found.values, "float32")
            for name, found in sorted(response.explanation.fields.items())
        },
    )


def _weights(messages: Mapping[str, scoring_pb2.Weights], count: int) -> dict[str, np.ndarray]:
    return {
        name: np.array(messages[name].values, "float32").reshape(count, messages[name].width)
        for name in sorted(messages)
    }


def _write(column: scoring_pb2.Column, rows: Sequence[Any]) -> None:
    """Fills a column with a value, or a list of values, for each row."""
    values = [row.tolist() if isinstance(row, np.ndarray | np.generic) else row for row in rows]
    if any(isinstance(row, list | tuple) for row in values):
        column.lengths.extend(len(row or ()) for row in values)
        values = [value for row in values for value in row or ()]
    column.missing.extend(place for place, value in enumerate(values) if value is None)
    kinds = {type(value) for value in values} - {type(None)}
    if bytes in kinds:
        texts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
        column.binaries.values.extend(texts)
    elif str in kinds:
        column.strings.values.extend(value or "" for value in values)
    elif float in kinds:
        column.floats.values.extend(value or 0.0 for value in values)
    else:
        column.ints.values.extend(value or 0 for value in values)
