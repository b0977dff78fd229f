"""Next-item rows of user histories, against a loop."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from serving.state.errors import DataError

LISTS = [[1, 2, 3, 4, 5, 6], [7], None, [8, 9], [], [3, 1, 2], [5, 4, 3, 2]]
USERS = pa.table(
    {
        "user": list("abcdefg"),
        "items": pa.array(LISTS, pa.large_list(pa.int32())),
        "age": [1, 2, 3, 4, 5, 6, 7],
    }
)


def options(path, length=3, **others):
    return DataOptions(
        source="sequences",
        path=str(path),
        sequences={"items": "items", "max_length": length},
        items={"key": "item"},
        **others,
    )


def expected(length):
    """The rows by split: user, history, item."""
    found = {"train": [], "valid": [], "test": []}
    for user, items in zip("abcdefg", LISTS, strict=True):
        for place in range(1, len(items or [])):
            left = len(items) - 1 - place
            split = {0: "test", 1: "valid"}.get(left, "train")
            row = {"user": user, "item": items[place], "history": items[:place][-length:]}
            found[split].append(row)
    return found


@pytest.mark.parametrize("length", [1, 3, 50])
def test_rows_are_those_of_a_loop(tmp_path, length):
    pq.write_table(USERS, tmp_path / "users.parquet", row_group_size=2)
    ingest(options(tmp_path / "users.parquet", length), None, 0, tmp_path / "data")
    ages = dict(zip("abcdefg", range(1, 8), strict=True))
    for split, rows in expected(length).items():
        found = pq.read_table(tmp_path / "data" / split)
        assert found.drop_columns(["age", "next"]).to_pylist() == rows
        assert found["age"].to_pylist() == [ages[row["user"]] for row in rows]
        assert set(found["next"].to_pylist()) == {1}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (USERS.rename_columns(["user", "bought", "age"]), "'items' \\(data.sequences.items\\)"),
        (USERS.append_column("item", USERS["age"]), "makes a column 'item', and the file has one"),
        (pa.table({"items": [1, 2]}), "expected a list of items"),
        (pa.table({"items": [[1, None]]}), "lists without nulls"),
    ],
)
def test_wrong_files_are_refused(tmp_path, table, message):
    pq.write_table(table, tmp_path / "users.parquet")
    with pytest.raises(DataError, match=message):
        ingest(options(tmp_path / "users.parquet"), None, 0, tmp_path / "data")


def test_options_that_the_source_makes_itself_are_refused():
    with pytest.raises(ValidationError, match="makes its own requests, histories and split"):
        options("x", split={"by": "time", "column": "time"})
    with pytest.raises(ValidationError, match="needs the table `data\\.sequences`"):
        DataOptions(source="sequences", path="x", items={"key": "item"})
    with pytest.raises(ValidationError, match="`sequences` belongs to the source"):
        DataOptions(source="parquet", path="x", sequences={"items": "items"})
    again = options("x")
    assert DataOptions(**again.model_dump()) == again
