"""Profiles in a store, the static features of a user or an item: pushed, and loaded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.arrow_kinds import is_list
from serving.state.columns.labels import check_finite
from serving.state.columns.missing import is_missing, with_nulls
from serving.state.definitions.static_features import StaticFeatures
from serving.state.errors import DataError
from serving.state.keyed.keys import column_keys
from serving.state.keyed.profiles import encode_profiles, profile_times
from serving.state.online.event_rows import rows_of
from serving.state.stores.store import Cell, Change, Store, StoreUnavailable

_ATTEMPTS = 50  # that other writers may undo
_PART = 1000  # profiles of one load


def profile_rows(static: StaticFeatures, profiles: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Checks profiles, and returns them in the columns of the definition.

    Args:
        static: The definition.
        profiles: The id and all features by name, None where one is not known.

    Raises:
        DataError: A column is absent, or a value is invalid.
    """
    rows = rows_of(profiles, static.columns, (), static.of)
    absent = np.flatnonzero(is_missing(rows[static.key]))
    if len(absent):
        raise DataError(
            f"{static.of} {absent[0]}: column {static.key!r}: expected the id of a {static.of}. "
            f"Received: {rows[static.key][absent[0]].as_py()!r}."
        )
    return _checked(static, rows)


def push_profiles(store: Store, static: StaticFeatures, rows: pa.Table) -> None:
    """Replaces the features of some users or items.

    Args:
        store: The store.
        static: The definition.
        rows: As `profile_rows` returns them. Of two profiles of one id the later one remains.

    Raises:
        StoreUnavailable: The store cannot be written.
    """
    cells = _cells(static, rows)
    last = {cell: row for row, cell in enumerate(cells)}
    for _ in range(_ATTEMPTS):
        if not last:
            return
        before = store.read(list(last))
        # Later than the profile before, whatever another machine's clock says.
        times = np.maximum(profile_times(before) + 1, time.time_ns() // 1000).tolist()
        blobs = encode_profiles(static, rows.take(pa.array(last.values())), times)
        made = _replace(store, list(last), before, blobs)
        last = {cell: row for (cell, row), done in zip(last.items(), made, strict=True) if not done}
    raise StoreUnavailable(
        f"The features of {len(last)} {static.of}s were changed {_ATTEMPTS} times by other writers "
        "while this one read them. Push them again."
    )


def load_profiles(store: Store, cells: Sequence[Cell], blobs: Sequence[bytes]) -> int:
    """Writes profiles of a table where the store has no newer one; returns how many.

    Args:
        store: The store.
        cells: Their cells.
        blobs: The profiles.

    Raises:
        DataError: A profile in the store is damaged.
        StoreUnavailable: The store cannot be written.
    """
    written = 0
    for first in range(0, len(cells), _PART):
        part, new = cells[first : first + _PART], blobs[first : first + _PART]
        before = store.read(part)
        chosen = np.flatnonzero(profile_times(before) <= profile_times(new)).tolist()
        made = _replace(
            store,
            [part[place] for place in chosen],
            [before[place] for place in chosen],
            [new[place] for place in chosen],
        )
        written += sum(made)  # the others were pushed this moment, and are newer
    return written


def _replace(
    store: Store,
    cells: Sequence[Cell],
    before: Sequence[bytes | None],
    blobs: Sequence[bytes],
) -> list[bool]:
    """Writes the profiles that no other writer has changed since they were read."""
    changes = zip(cells, before, blobs, strict=True)
    return store.write([Change(cell, old, new, {}) for cell, old, new in changes], {})


def _cells(static: StaticFeatures, rows: pa.Table) -> list[Cell]:
    keys = column_keys(rows[static.key].combine_chunks())
    return [Cell(static.fingerprint, (key,)) for key in keys]


def _checked(static: StaticFeatures, rows: pa.Table) -> pa.Table:
    """The rows with null for NaN, and without infinite numbers, as `ingest` has them."""
    for field in static.features:
        values = rows[field.name]
        if is_list(field.type):
            values = values.combine_chunks().flatten()
        if pa.types.is_floating(values.type):
            check_finite(with_nulls(values), field.name, f"{static.of}s", None)
        if pa.types.is_floating(field.type):
            place = rows.column_names.index(field.name)
            rows = rows.set_column(place, field.name, with_nulls(rows[field.name]))
    return rows
