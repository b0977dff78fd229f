"""The rows of decoded calls: a row for each candidate, without labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.features import FittedFeatures
from pipelines.outcomes.decoded_calls import CallRequests
from pipelines.outcomes.layout import LABEL, LAG, SCORE, STATE, VERSION, Layout
from pipelines.outcomes.row_times import ANSWERED, SERVED_AT


@dataclass(frozen=True)
class Rows:
    """The rows of some calls.

    Attributes:
        table: The columns of the layout; labels are null.
        names: `(rows,)`, the request ids that outcomes have.
        ticks: `(rows,)`, the times.
        versions: `(rows,)`, the versions that answered.
        sizes: `(calls,)`, rows of each call.
        places: `(calls,)`, the places of the calls in the order of time.
        requests: Number of requests.
    """

    table: pa.Table
    names: pa.Array
    ticks: np.ndarray
    versions: np.ndarray
    sizes: np.ndarray
    places: np.ndarray
    requests: int


def rows_of(calls: Sequence[CallRequests], layout: Layout, fitted: FittedFeatures) -> Rows:
    """Assembles rows.

    Args:
        calls: At least one.
        layout: The columns.
        fitted: Has the table of items, whose features no call has.
    """
    lengths = np.concatenate([of.requests.lengths for of in calls])
    request = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    sizes = np.array([of.requests.rows for of in calls])
    call = pa.array(np.repeat(np.arange(len(calls)), sizes))
    ticks = np.concatenate([of.ticks for of in calls])
    names = pa.array([name for of in calls for name in _names(of)], pa.string())
    unique = pa.array([_shown(name, of) for of in calls for name in _names(of)], pa.string())
    columns: dict[str, Any] = {layout.request: unique.take(request)}
    if layout.times.name != SERVED_AT:
        columns[layout.times.name] = layout.times.column(ticks).take(request)
    contexts = [of.requests.context for of in calls]
    candidates = fitted.joined(pa.concat_tables([of.requests.candidates for of in calls]))
    columns |= {name: candidates[name] for name in candidates.column_names}
    columns |= _repeated(contexts, request)
    columns |= {name: array.take(call) for name, array in _served(calls).items()}
    for task in layout.tasks:
        columns[SCORE + task] = np.concatenate([_scores(of, task) for of in calls])
    table = _in_layout(columns, layout, int(sizes.sum()))
    return Rows(
        table,
        names.take(request),
        ticks[request.to_numpy()],
        table[VERSION].to_numpy(),
        sizes,
        np.array([of.call.place for of in calls]),
        len(lengths),
    )


def _names(of: CallRequests) -> list[str]:
    """The ids of the requests of a call: of several, numbered."""
    name, count = of.call.values["request_id"], len(of.requests.lengths)
    return [name] if count == 1 else [f"{name}/{number}" for number in range(count)]


def _shown(name: str, of: CallRequests) -> str:
    """The id of a request in the rows: the rows of two versions are two requests."""
    return f"{name}@{of.call.values['version']}" if of.call.is_again else name


def _repeated(contexts: Sequence[pa.Table], request: pa.Array) -> dict[str, Any]:
    """The columns of the context for each row; a call may lack keys."""
    if not any(context.num_columns for context in contexts):
        return {}
    table = pa.concat_tables(contexts, promote_options="default").combine_chunks().take(request)
    return {name: table[name] for name in table.column_names}


def _served(calls: Sequence[CallRequests]) -> dict[str, pa.Array]:
    """The columns on the answer, for each call."""
    values = [of.call.values for of in calls]
    states = [json.loads(one["state"]) if one.get("state") else None for one in values]
    how = [None if s is None else "degraded" if s["is_degraded"] else "answered" for s in states]
    lag = [None if state is None else state["lag_seconds"] for state in states]
    return {
        SERVED_AT: pa.array([one["time"] for one in values], ANSWERED),
        VERSION: pa.array([one["version"] for one in values], pa.int64()),
        LABEL: pa.array([one.get("label") or None for one in values], pa.string()),
        STATE: pa.array(how, pa.string()),
        LAG: pa.array(lag, pa.float64()),
    }


def _scores(of: CallRequests, task: str) -> np.ndarray:
    missing = np.full(of.requests.rows, np.nan, np.float32)
    return of.requests.scores.get(task, missing)


def _in_layout(columns: dict[str, Any], layout: Layout, rows: int) -> pa.Table:
    """The columns in their order and types; those that no call has are null."""
    arrays = []
    for column in layout.schema:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pa.nulls(rows, column.type))
        elif isinstance(values, np.ndarray):
            arrays.append(pa.array(values, column.type, from_pandas=True))  # NaN: no score
        else:
            arrays.append(values.cast(column.type))
    return pa.table(arrays, schema=layout.schema)
