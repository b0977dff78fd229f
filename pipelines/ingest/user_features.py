"""The user table of `data.users`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import UserOptions
from pipelines.ingest.feature_tables import USERS, feature_files, join_by_id, read_features
from pipelines.items import UserTable
from pipelines.storage.columns import by_name
from recsys_attn.schema import Categorical, Schema
from serving.state.errors import require_column


def read_users(options: UserOptions, schema: Schema, own: pa.Table | None) -> UserTable:
    """The user table of `data.users.path`, or that of the source.

    Args:
        options: The `[data.users]` table.
        schema: The features.
        own: The source's table, if it has one.

    Raises:
        PipelineError: There is no table; the id is missing or repeated in it; a feature has another
            type, or there is none.
    """
    if options.path is None and own is None:
        raise PipelineError(
            "`data.users.path`: expected a Parquet file or folder with one row per user, as this "
            "source has no table of users. Received: none. Name the file, or remove `data.users`."
        )
    files = feature_files(options.places(), own, schema, USERS)
    table = UserTable(options.key, read_features(files, options.key, schema, USERS))
    if not table.features:
        raise PipelineError(
            '`data.users.path`: expected columns of features with side = "context" besides '
            f"{options.key!r}. Received none. Add the features, or remove `data.users`."
        )
    return table


def with_users(table: pa.Table, users: UserTable | None, where: str) -> pa.Table:
    """Rows to score with the features of their users that they lack.

    Raises:
        PipelineError: The rows have no ids of users, or others than the user table.
    """
    if users is None or set(users.features) <= set(table.column_names):
        return table
    require_column(table.column_names, users.key, "data.users.key", where)
    return join_by_id(table, users, where)


def columns_to_read(
    names: Sequence[str], users: UserTable | None, columns: Collection[str]
) -> list[str]:
    """The columns that `with_users` needs for others.

    Args:
        names: Columns of the rows with the features of their users.
        users: The user table, if there is one.
        columns: Columns of the file.
    """
    lacking = set() if users is None else {*users.features} - {*columns}
    if users is None or not lacking:
        return list(names)
    return list(dict.fromkeys([users.key, *(name for name in names if name not in lacking)]))


def check_user_key(options: UserOptions, schema: Schema) -> None:
    """Checks that a feature that `data.users.key` names is an id of the context.

    Raises:
        ValueError: It is another feature.
    """
    feature = by_name(schema).get(options.key)
    if feature is None:
        return
    is_id = isinstance(feature, Categorical) and not feature.multivalued
    if not is_id or feature.side != "context" or feature.dtype == "float32":
        raise ValueError(
            "`data.users.key` must name a column with one string or whole number; a feature of "
            'that name must be categorical with side = "context". Received: '
            f"{options.key!r}"
        )
