"""Checks that all rows of a request have the same context, as training and serving assume."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import shown_value
from pipelines.storage.request_rows import run_starts
from recsys_attn.schema import Feature, Schema, Sequence, is_listed
from serving.state.columns.missing import with_nulls


def check_context(
    table: pa.Table, schema: Schema, request: str, where: str, first_row: int = 0
) -> None:
    """Compares each row's context with that of the row before it in the same request.

    Args:
        table: Rows as `check_table` gives them, those of a request together.
        schema: Names the features of the context.
        request: Column of the request id.
        where: Name of the file, for errors.
        first_row: Number of the table's first row in its file, for errors.

    Raises:
        PipelineError: A context feature has two values in one request.
    """
    if all(feature.side == "context" for feature in schema.features):
        return  # each row is a request
    follows = np.ones(table.num_rows, bool)  # the row before is of the same request
    follows[run_starts(table[request])] = False
    rows = np.flatnonzero(follows)
    for feature in schema.features:
        if feature.side != "context" or not len(rows):
            continue
        column = table[feature.name].combine_chunks()
        changes = (_list_changes if is_listed(feature) else _changes)(column, rows)
        if len(changes):
            raise _error(table, feature, request, where, int(changes[0]), first_row)


def _changes(column: pa.Array, rows: np.ndarray) -> np.ndarray:
    """The numbers of `rows` whose value differs from that of the row before."""
    differs = _differ(column[1:], column[:-1])
    return rows[differs[rows - 1]]


def _list_changes(column: pa.ListArray, rows: np.ndarray) -> np.ndarray:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    other_length = lengths[rows] != lengths[rows - 1]
    same = rows[~other_length]
    # Lists are stored one after another: if two neighbours are equally long, each value's
    # counterpart is one length before it.
    of_row = np.repeat(same, lengths[same])
    firsts = np.cumsum(lengths) - lengths
    inside = np.arange(len(of_row)) - np.repeat(np.cumsum(lengths[same]), lengths[same])
    place = firsts[of_row] + inside + lengths[of_row]
    values = column.flatten()
    differs = _differ(values.take(pa.array(place)), values.take(pa.array(place - lengths[of_row])))
    return np.union1d(rows[other_length], of_row[differs])


def _differ(values: pa.Array, others: pa.Array) -> np.ndarray:
    """Elementwise inequality; missing values are equal."""
    values, others = with_nulls(values), with_nulls(others)
    unequal = pc.fill_null(pc.not_equal(values, others), False)
    half = pc.xor(values.is_null(), others.is_null())
    return pc.or_(unequal, half).to_numpy(zero_copy_only=False)


def _error(
    table: pa.Table, feature: Feature, request: str, where: str, row: int, first_row: int
) -> PipelineError:
    before, value = (_shown(table[feature.name][index].as_py()) for index in (row - 1, row))
    advice = "make it the same in all rows of a request"
    if not isinstance(feature, Sequence):
        advice += ', or declare the feature with side = "candidate"'
    return PipelineError(
        f"{where}: column {feature.name!r} (a feature of the context): expected one value per "
        f"request, received {value} after {before} in the request "
        f"{shown_value(table[request][row])}, row {first_row + row}; {advice}."
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
