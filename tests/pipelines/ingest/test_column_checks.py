"""Checks of the columns of a source, and of rows to score."""

import dataclasses

import pyarrow as pa
import pytest

from pipelines.ingest.column_checks import check_columns, check_made
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import ALL, Source, SourceFile
from pipelines.ingest.table_files import parquet_files
from pipelines.storage.filesystem import Storage
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError
from tests.pipelines.ingest.files import run, write_parquet

MADE = ["seen", "rate", "unused"]
SCHEMA = Schema(
    (Categorical("item"), Sequence("seen", shares="item"), Numeric("rate")), (Task("click"),)
)


def test_rows_to_score_need_the_made_columns_of_the_features() -> None:
    check_made(MADE, SCHEMA, ["item", "seen", "rate"], "new.parquet")
    check_made(MADE, SCHEMA, ["seen", "rate"], "new.parquet")  # other checks name the item
    message = r"new.parquet: the columns \['seen', 'rate'\] are missing, which `ingest` makes"
    with pytest.raises(DataError, match=message):
        check_made(MADE, SCHEMA, ["item"], "new.parquet")


GOOD = {
    "item": ["a", "b"],
    "user": [1, 2],
    "at": [3, 4],
    "click": [0, 1],
    "part": ["train", "test"],
}
OPTIONS = DataOptions(
    source="parquet",
    path="rows",
    split={"by": "column", "column": "part"},
    histories=[{"name": "seen", "of": "item", "by": "user", "time": "at"}],
    aggregates=[{"name": "rate", "kind": "rate", "of": "click", "by": "user", "time": "at"}],
)
LABEL = "Write 1 for yes, 0 for no and null for unknown; of a number such as stars or seconds"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({name: None}, rf"b\.parquet: the column '{name}' \(.*is missing") for name in GOOD),
        (
            {"click": ["yes", "no"]},
            rf"'click' \(data.agg.*label of 0, 1 or null, received string\. {LABEL}",
        ),
        ({"item": [[1], [2]]}, r"b\.parquet: column 'item': expected string, received list"),
        ({"user": [[1], [2]]}, r"'user' \(data.*by\): expected one value per row"),
        ({"at": [True, False]}, r"'at' \(data.*time\): expected times"),
    ],
)
def test_all_files_are_checked_before_any_row_is_read(tmp_path, changed, message) -> None:
    files = []
    for name, columns in (("a", GOOD), ("b", {**GOOD, **changed})):
        kept = {key: values for key, values in columns.items() if values is not None}
        path = write_parquet(tmp_path / f"{name}.parquet", **kept)
        (file,) = parquet_files(Storage.of(path))
        files.append(dataclasses.replace(file, read=_refused))
    with pytest.raises(DataError, match=message):
        check_columns(Source({ALL: files}), OPTIONS, SCHEMA, {})


FORGETS = {"name": "h", "of": "item", "by": "user", "time": "at"}
WINDOW = {**FORGETS, "kind": "sum", "of": "click", "window": 9.0, "resolution": "1h"}


@pytest.mark.parametrize(
    ("times", "options", "message"),
    [
        (pa.int64(), {"late": "1d"}, r"data\.late: the column 'at' holds int64, so give a number"),
        (pa.date32(), {"late": 7.0}, r"data\.late: the column 'at' holds date32.*such as '7d'"),
        (
            pa.float64(),
            {"histories": [{**FORGETS, "forget_after": "1d"}]},
            r"data\.histories 'h': forget_after: .* holds double, so give a number",
        ),
        (
            pa.timestamp("s"),
            {"histories": [{**FORGETS, "forget_after": 86_400.0}]},
            r"data\.histories 'h': forget_after: .*such as '7d'. Received: 86400\.0",
        ),
        (
            pa.int64(),
            {"histories": (), "aggregates": [WINDOW]},
            r"data\.aggregates 'h': resolution: .* so give a number .* Received: '1h'",
        ),
        (
            pa.timestamp("s"),
            {"time_unit": "ms"},
            r"data\.time_unit: the column 'at' holds timestamp\[s\], which has a unit of its own",
        ),
        (
            pa.int64(),
            {"late": 9.0, "event_id": "itm"},
            r"'itm' \(data\.event_id\) is missing\. Did you mean 'item'",
        ),
        (
            pa.int64(),
            {"late": 9.0, "event_id": "list"},
            r"'list' \(data\.event_id\) holds lists; expected one value",
        ),
    ],
)
def test_options_of_events_fit_the_type_of_their_times(times, options, message) -> None:
    table = pa.table({**GOOD, "at": pa.array([3, 4], times), "list": [[1], [2]]})
    given = {"source": "parquet", "path": "rows", "histories": [FORGETS], **options}
    with pytest.raises(DataError, match=message):
        check_columns(
            Source({ALL: [SourceFile.of_table("a", table)]}), DataOptions(**given), None, {}
        )


LIST, STRUCT = pa.list_(pa.int64()), pa.struct([("a", pa.int64())])


@pytest.mark.parametrize("kind", [LIST, STRUCT], ids=str)
@pytest.mark.parametrize("by", ["user", "hash", "time", "column", "request"])
def test_requests_and_splits_need_one_value_per_row(tmp_path, kind, by) -> None:
    values = [[1], [2]] if kind == LIST else [{"a": 1}, {"a": 2}]
    path = write_parquet(tmp_path / "a.parquet", x=pa.array(values, kind), row=[1, 2])
    key = {"request": "x"} if by == "request" else {"split": {"by": by, "column": "x"}}
    named = "request" if by == "request" else "split.column"
    message = rf"a\.parquet: column 'x' \(data\.{named}\).* expected "
    with pytest.raises(DataError, match=message + ("'train'" if by == "column" else "one value")):
        run(tmp_path / "out", source="parquet", path=str(path), **key)


def test_missing_column_lists_those_of_the_file_alone(tmp_path) -> None:
    (file,) = parquet_files(Storage.of(write_parquet(tmp_path / "a.parquet", **GOOD)))
    message = r"'usr' \(evaluation.group\) is missing. .* Columns: item, user, at, click, part\.$"
    with pytest.raises(DataError, match=message):
        check_columns(Source({ALL: [file]}), OPTIONS, SCHEMA, {"evaluation.group": "usr"})


def _refused(columns):
    pytest.fail("a row was read")


def test_named_columns_are_checked_in_all_files() -> None:
    table = pa.table(GOOD)
    files = [SourceFile.of_table(n, t) for n, t in (("a", table), ("b", table.drop("user")))]
    with pytest.raises(DataError, match=r"b: the column 'user' \(evaluation.group\) is missing"):
        check_columns(
            Source({ALL: files}),
            DataOptions(source="parquet", path="rows"),
            None,
            {"evaluation.group": "user"},
        )
    assert files[0].schema == table.schema
    assert SourceFile.of_table("c", table[:0]).schema is None
