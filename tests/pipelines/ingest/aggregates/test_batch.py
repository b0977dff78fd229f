"""Aggregates equal a slow loop over the rows, whatever the order and the size of the source."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.engines import LOCAL
from pipelines.ingest.aggregates import batch
from pipelines.ingest.aggregates.batch import with_aggregates
from tests.pipelines.ingest.aggregates.events import definitions, slow, source, table


def made(folder: Path, found, aggregates) -> pa.Table:
    folder.mkdir()
    found, _ = with_aggregates(found, aggregates, LOCAL, folder)
    return pa.concat_tables(
        t for files in found.parts.values() for f in files for t in f.read(None)
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("request_column", ["request", None])
def test_equal_to_the_definition(tmp_path, monkeypatch, seed, request_column) -> None:
    monkeypatch.setattr(batch, "RANGE_ROWS", 29)
    monkeypatch.setattr(batch, "_SAMPLED", 3)
    rows = table(seed=seed)
    cut = 83 if request_column is None else int(np.flatnonzero(np.diff(rows["request"]))[41]) + 1
    files = source(rows[:cut], rows[:0], rows[cut:], request=request_column)
    columns = made(tmp_path / "work", files, definitions())
    assert columns.select(rows.column_names).equals(rows)
    for aggregate in definitions():
        expected = slow(rows.to_pylist(), aggregate, request_column)
        assert columns[aggregate.name].to_pylist() == expected, aggregate
