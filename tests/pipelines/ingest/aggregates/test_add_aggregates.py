"""Aggregates equal a slow loop over the rows, whatever the order and the size of the source."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.engines import LOCAL
from pipelines.ingest.aggregates import add_aggregates
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.log_state import LogState
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.keyed.codes import Codes
from serving.state.keyed.keys import key_bytes
from tests.support.event_logs import definitions, slow, source, table


def made(folder: Path, found, aggregates) -> pa.Table:
    folder.mkdir()
    found = with_aggregates(found, aggregates, LOCAL, folder, LogState())
    return pa.concat_tables(
        t for files in found.parts.values() for f in files for t in f.read(None)
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("request_column", ["request", None])
def test_equal_to_the_definition(tmp_path, monkeypatch, seed, request_column) -> None:
    monkeypatch.setattr(add_aggregates, "RANGE_ROWS", 29)
    monkeypatch.setattr(add_aggregates, "_SAMPLED", 3)
    rows = table(seed=seed)
    cut = 83 if request_column is None else int(np.flatnonzero(np.diff(rows["request"]))[41]) + 1
    files = source(rows[:cut], rows[:0], rows[cut:], request=request_column)
    columns = made(tmp_path / "work", files, definitions())
    assert columns.select(rows.column_names).equals(rows)
    for aggregate in definitions():
        expected = slow(rows.to_pylist(), aggregate, request_column)
        assert columns[aggregate.name].to_pylist() == expected, aggregate


@pytest.mark.parametrize("columns", [1, 2, 3, 9])
def test_rows_of_many_values_keep_their_numbers(columns) -> None:
    """The product of the numbers of values is above the largest int64."""
    rng = np.random.default_rng(columns)
    rows = pa.table({f"c{c}": rng.permutation(307) for c in range(columns)})
    rows = pa.concat_tables([rows, rows.slice(5, 11)])
    codes = Codes(rows.column_names)
    numbers = codes.encode(rows)
    assert len(codes) == 307
    expected = [
        tuple(key_bytes(value, "int64") for value in row.values()) for row in rows.to_pylist()
    ]
    assert [codes.keys[number] for number in numbers] == expected
    np.testing.assert_array_equal(numbers[307:], numbers[5:16])


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_booleans_add_up_as_numbers(tmp_path, kind) -> None:
    rows = table(seed=3)
    aggregate = AggregateOptions(name="sum", kind=kind, of="flag", by="user", time="time")
    flags = [[flag, number] for flag, number in ((True, 1), (False, 0), (None, None))]
    found = []
    for of in range(2):
        values = pa.array([flags[row % 3][of] for row in range(rows.num_rows)])
        flagged = source(rows.append_column("flag", values))
        found.append(made(tmp_path / str(of), flagged, [aggregate]))
    assert found[0]["sum"].equals(found[1]["sum"])
    assert found[0]["sum"].null_count < rows.num_rows
