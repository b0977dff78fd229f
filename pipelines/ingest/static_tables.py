"""The tables of `data.items` and `data.users` as static features of a store."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.feature_tables import ITEMS, USERS, Role
from pipelines.ingest.log_state import StaticTable
from pipelines.items import ItemTable, UserTable
from pipelines.storage.columns import plain
from pipelines.storage.filesystem import Storage, Where
from serving.state.definitions.group import Feature, names_of
from serving.state.definitions.static_features import StaticFeatures


def static_tables(
    options: DataOptions,
    items: ItemTable | None,
    users: UserTable | None,
) -> list[StaticTable]:
    """The tables with what a store needs of them: an export holds the features of items itself.

    Args:
        options: The `[data]` table.
        items: The item table, if there is a file of it.
        users: The user table, if there is one.
    """
    tables = []
    if users is not None and options.users is not None:
        tables.append(_static(USERS, users.key, users.table, options.users.places()))
    if items is not None and options.items is not None:
        made: tuple[Feature, ...] = (*options.aggregates, *options.histories)
        read = {name for feature in made for name in names_of(feature)}
        of_items = [name for name in items.features if name in read]
        if of_items:
            table = items.table.select([items.key, *of_items])
            tables.append(_static(ITEMS, items.key, table, options.items.places()))
    return tables


def _static(role: Role, key: str, table: pa.Table, places: Sequence[Where]) -> StaticTable:
    columns = pa.schema({field.name: plain(field.type) for field in table.schema})
    return StaticTable(StaticFeatures(role.name, key, columns), table, _written(places))


def _written(places: Sequence[Where]) -> int:
    """Microseconds since 1970 when the newest file was written."""
    stamps = [stamp for place in places for stamp in Storage.of(place).stamps().values()]
    return max((int(stamp.split()[1]) // 1000 for stamp in stamps), default=0)
