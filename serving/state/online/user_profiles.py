"""The static features of users in a store: read for a request, replaced by a push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.arrow_kinds import is_list
from serving.state.columns.labels import check_finite
from serving.state.columns.missing import is_missing, with_nulls
from serving.state.definitions.key_kinds import key_kind
from serving.state.definitions.user_features import UserFeatures
from serving.state.errors import DataError, require_column
from serving.state.keyed.keys import column_keys
from serving.state.keyed.profiles import encode_profiles, profile_version
from serving.state.online.event_rows import rows_of
from serving.state.online.request_keys import request_keys
from serving.state.stores.store import Cell, Change, Store, StoreUnavailable

_ATTEMPTS = 50  # that other writers may undo


def user_cells(users: UserFeatures, context: Mapping[str, Any]) -> list[Cell]:
    """The cell of the user of a request; none if its id is missing.

    Raises:
        DataError: The id is absent, or has a value of another type.
    """
    require_column(context, users.key, "the id of the user", "request")
    kind = key_kind(users.columns.field(users.key).type)
    (key,) = request_keys([context[users.key]], kind, users.key)
    return [] if key is None else [Cell(users.fingerprint, (key,))]


def push_users(store: Store, users: UserFeatures, profiles: Sequence[Mapping[str, Any]]) -> None:
    """Replaces the features of some users.

    Args:
        store: The store.
        users: The definition.
        profiles: The id and all features of each user by name, None where one is not known. Of
            two profiles of one user the later one remains.

    Raises:
        DataError: A column is absent, or a value is invalid; then nothing is changed.
        StoreUnavailable: The store cannot be written.
    """
    rows = _checked(users, rows_of(profiles, users.columns, (), "user"))
    cells = [Cell(users.fingerprint, (key,)) for key in _keys(users, rows)]
    last = {cell: row for row, cell in enumerate(cells)}
    for _ in range(_ATTEMPTS):
        if not last:
            return
        before = store.read(list(last))
        versions = [profile_version(blob) + 1 for blob in before]
        blobs = encode_profiles(users, rows.take(pa.array(last.values())), versions)
        changes = [
            Change(cell, old, new, {}) for cell, old, new in zip(last, before, blobs, strict=True)
        ]
        made = store.write(changes, {})
        last = {cell: row for (cell, row), done in zip(last.items(), made, strict=True) if not done}
    raise StoreUnavailable(
        f"The features of {len(last)} users were changed {_ATTEMPTS} times by other writers while "
        "this one read them. Push them again."
    )


def _keys(users: UserFeatures, rows: pa.Table) -> list[bytes]:
    column = rows[users.key]
    row = int(np.argmax(np.append(is_missing(column), True)))
    if row < len(column):
        raise DataError(
            f"user {row}: column {users.key!r}: expected the id of a user. Received: "
            f"{column[row].as_py()!r}."
        )
    return column_keys(column.combine_chunks())


def _checked(users: UserFeatures, rows: pa.Table) -> pa.Table:
    """The rows with null for NaN, and without infinite numbers, as `ingest` has them."""
    for field in users.features:
        values = rows[field.name]
        if is_list(field.type):
            values = values.combine_chunks().flatten()
        if pa.types.is_floating(values.type):
            check_finite(with_nulls(values), field.name, "users", None)
        if pa.types.is_floating(field.type):
            place = rows.column_names.index(field.name)
            rows = rows.set_column(place, field.name, with_nulls(rows[field.name]))
    return rows
