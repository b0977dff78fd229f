"""Columns that folders give: `dt=2025-01-01/part.parquet`."""

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.storage.dataset import DataSplit, stored_rows
from recsys_attn.schema import Categorical, Numeric, Schema, Task


def _write(folder, *names, **columns):
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"row": [number, number]} | columns), folder / name / "a.parquet")


def _read(folder, *names, dtype=None):
    feature = Numeric("hour") if dtype == "float32" else Categorical("hour", dtype=dtype or "int64")
    features = Schema((feature,), (Task("y"),)) if dtype else None
    split = DataSplit(folder, features=features)
    table = pa.concat_tables(split.batches([*names, "row"]))
    assert split.schema.field(names[0]).type == table[names[0]].type
    return [table[name].to_pylist()[::2] for name in names]


def test_values_are_integers_dates_or_strings(tmp_path):
    null = "__HIVE_DEFAULT_PARTITION__"
    _write(
        tmp_path,
        f"dt=2025-01-01/hour=05/land={null}",
        "dt=2025-01-02/hour=12/land=a%2Fb%3D",
        f"dt={null}/hour=7/land=2025-01-01",
    )
    assert _read(tmp_path, "dt", "hour", "land") == [
        [date(2025, 1, 1), date(2025, 1, 2), None],
        [5, 12, 7],
        [None, "a/b=", "2025-01-01"],
    ]
    split = DataSplit(tmp_path)
    assert split.columns == ["row", "dt", "hour", "land"]
    alone = pa.concat_tables(split.batches(["hour"]))  # of no column in the files themselves
    assert alone.to_pydict() == {"hour": [5, 5, 12, 12, 7, 7]}
    (stored,) = stored_rows(split.footers, 1, ["land", "hour"], 5)
    assert stored.to_pydict() == {"land": ["a/b="] * 2, "hour": [12] * 2}


@pytest.mark.parametrize(
    ("dtype", "expected"), [("string", ["05", "12"]), ("int64", [5, 12]), ("float32", [5.0, 12.0])]
)
def test_the_type_of_a_feature_counts(tmp_path, dtype, expected):
    _write(tmp_path, "hour=05", "hour=12")
    assert _read(tmp_path, "hour", dtype=dtype) == [expected]


def test_a_folder_that_does_not_fit_the_feature(tmp_path):
    _write(tmp_path, "hour=05", "hour=noon")
    with pytest.raises(PipelineError, match=r"hour=noon/a\.parquet: column 'hour': expected int64"):
        _read(tmp_path, "hour", dtype="int64")


def test_the_files_own_column_counts(tmp_path):
    _write(tmp_path, "hour=05", hour=[1, 2])
    assert _read(tmp_path, "hour") == [[1]]
