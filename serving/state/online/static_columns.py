"""Columns of events that are static features: the rows of a log do not have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.definitions.definition import StateDefinition
from serving.state.keyed.keys import column_keys
from serving.state.keyed.profiles import decode_profiles
from serving.state.stores.store import Cell

Read = Callable[[Sequence[Cell]], Sequence[bytes | None]]


def with_static_columns(definition: StateDefinition, rows: pa.Table, read: Read) -> pa.Table:
    """Rows of events with the static features that features over time read.

    Args:
        definition: The features.
        rows: The columns `event_columns` of the definition.
        read: Reads the profiles of cells, as `Store.read`.

    Returns:
        The columns of the definition; null where nothing is known.
    """
    for static in definition.static:
        names = [field.name for field in static.features if field.name in definition.columns.names]
        if not names:
            continue
        ids = with_nulls(rows[static.key].combine_chunks()).dictionary_encode()
        cells = [Cell(static.fingerprint, (key,)) for key in column_keys(ids.dictionary)]
        values = decode_profiles(static, [*read(cells), None])
        place = ids.indices.fill_null(len(cells)).to_numpy()
        for name in names:
            field = definition.columns.field(name)
            column = pa.array(values[name][place].tolist(), static.columns.field(name).type)
            rows = rows.append_column(field, with_nulls(column).cast(field.type))
    return rows.select(definition.columns.names)
