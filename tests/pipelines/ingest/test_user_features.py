"""The user table's features in the rows, in the state, and the errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions, UserOptions
from pipelines.items import UserTable
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError
from serving.state.online.online_state import OnlineState

SCHEMA = Schema(
    (
        Categorical("item", dtype="int64"),
        Categorical("country", side="context"),
        Numeric("age", side="context"),
        Numeric("clicks", side="context"),
        Sequence("brands", dtype="int64"),
    ),
    (Task("click"),),
)
FEATURES = ("country", "age", "brands")
USERS = pa.table(
    {
        "user": [5, 2, 3],
        "country": ["näh", None, ""],
        "age": [0.1, 31.0, None],
        "brands": [[2**60, None], [], None],
        "ignored": [1, 2, 3],
    }
)
COUNT = {"name": "clicks", "kind": "count", "by": ("country", "user"), "time": "time"}


def log(rows: int = 61, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "user": pa.array(rng.integers(1, 7, rows), mask=rng.random(rows) < 0.1),
            "item": rng.integers(1, 9, rows),
            "time": np.arange(rows),
            "click": rng.integers(2, size=rows),
            **columns,
        }
    )


def test_a_source_without_users_needs_a_file_of_them(tmp_path: Path) -> None:
    chosen = options(tmp_path, log())
    chosen = chosen.model_copy(update={"users": UserOptions(key="user")})
    with pytest.raises(DataError, match=r"`data.users.path`: expected a Parquet file"):
        ingest(chosen, SCHEMA, 0, tmp_path / "data")


def test_behind_a_run_its_users_are_those_of_that_run(tmp_path: Path) -> None:
    first = options(tmp_path, log())
    ingest(first, SCHEMA, 0, tmp_path / "data")
    later = log().set_column(2, "time", pa.array(np.arange(61) + 61))
    pq.write_table(later, tmp_path / "later.parquet")
    changed = {"path": str(tmp_path / "later.parquet"), "behind": tmp_path}
    second = first.model_copy(update={**changed, "users": UserOptions(key="user")})
    ingest(second, SCHEMA, 0, tmp_path / "second")
    before, after = (UserTable.load(tmp_path / name) for name in ("data", "second"))
    assert before is not None
    assert after is not None
    rows = [pq.read_table(tmp_path / name / "train")["age"] for name in ("data", "second")]
    assert rows[0].null_count == rows[1].null_count < len(rows[0])
    assert before.table.equals(after.table)


def options(folder: Path, rows: pa.Table, users: pa.Table = USERS, key: str = "user") -> Any:
    pq.write_table(rows, folder / "log.parquet")
    pq.write_table(users, folder / "users.parquet")
    return DataOptions(
        source="parquet",
        path=str(folder / "log.parquet"),
        aggregates=(COUNT,),
        users={"key": key, "path": str(folder / "users.parquet")},
        split={"by": "hash", "column": "time", "valid": 0.3, "test": 0.3},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("users")
    ingest(options(folder, log()), SCHEMA, 0, folder / "data")
    return folder / "data"


def test_rows_have_the_features_of_their_users(made: Path) -> None:
    by_user = {row["user"]: row for row in USERS.to_pylist()}
    past: dict[tuple[Any, ...], int] = {}
    rows = pa.concat_tables(pq.read_table(made / split) for split in ("train", "valid", "test"))
    assert rows.num_rows == 61
    assert "ignored" not in rows.column_names
    for row in rows.sort_by("time").to_pylist():
        of_user: Mapping[str, Any] = by_user.get(row["user"], {})
        for name in FEATURES:
            value = of_user.get(name)
            assert row[name] == (float(np.float32(value)) if name == "age" and value else value)
        key = (row["country"], row["user"])  # an aggregate counts by a feature of the table, too
        has_past = None not in key and "" not in key
        assert row["clicks"] == (past.get(key, 0) if has_past else None)
        past[key] = past.get(key, 0) + 1


def test_store_gives_what_the_rows_have(made: Path, tmp_path: Path) -> None:
    with OnlineState(f"lmdb:{tmp_path}/store", made / "state") as state:
        assert state.load() == 3 + 1  # users, and the only key with a country
        rows = pa.concat_tables(pq.read_table(made / split) for split in ("train", "valid", "test"))
        for row in rows.slice(0, 29).to_pylist():
            values = state.values({"user": row["user"], "country": "x"}, as_of=99).context
            assert values["country"] == (row["country"] or "")
            np.testing.assert_equal(values["age"], np.float32(row["age"] or np.nan))
            assert values["brands"] == (row["brands"] or [])


def test_saved_table_is_the_same(made: Path) -> None:
    saved = UserTable.load(made)
    assert saved is not None
    assert saved.table.column_names == ["user", *FEATURES]
    assert saved.table["country"].equals(USERS["country"])


@pytest.mark.parametrize(
    ("rows", "users", "message"),
    [
        (log(age=np.ones(61)), USERS, "'age' is in the rows and in the user table"),
        (log(), USERS.slice(0, 0), "expected a row for each user"),
        (log(), pa.concat_tables([USERS] * 2), "2 rows of the user 5, and 2 more such users"),
        (log(), USERS.rename_columns(["id", *USERS.column_names[1:]]), r"'user' \(data.users.key"),
        (log().drop_columns(["user"]), USERS, r"'user' \(data.users.key\) is missing"),
        (log(), USERS.select(["user", "ignored"]), "`data.users.path`: expected columns of feat"),
        (log(), USERS.set_column(0, "user", pa.array([1, None, 2])), "1 nulls or empty ids"),
        (log(), USERS.set_column(0, "user", pa.array([0.5, 1, 2])), "text or whole numbers. Rec"),
        (log(), USERS.set_column(0, "user", [["a", "b", "c"]]), "expected ids of type string"),
        (log(), USERS.set_column(2, "age", [["a", "b", "c"]]), "'age': expected float32"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    tmp_path: Path, rows: pa.Table, users: pa.Table, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        ingest(options(tmp_path, rows, users), SCHEMA, 0, tmp_path / "data")
