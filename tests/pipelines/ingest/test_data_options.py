"""The `[data]` table: invalid combinations and missing paths."""

import pytest
from pydantic import ValidationError

from pipelines.ingest.data_options import DataOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "simulate", "simulate": {"candidates": 50, "items": 97}}, "half of `items`"),
        ({"source": "criteo", "simulate": {}}, "`simulate` belongs to the source 'simulate'"),
        ({"source": "csv"}, "`path` must name the csv file or folder"),
        ({"source": "frappe", "path": ["a", "b"]}, "`path` must be one file or folder"),
        (
            {
                "source": "movielens-1m",
                "aggregates": [
                    {"name": time, "kind": "count", "by": "u", "time": time} for time in "ab"
                ],
            },
            r"`aggregates` must all have the same `time`. Received: \['a', 'b'\]",
        ),
        (
            {
                "source": "movielens-1m",
                "histories": [{"name": "h", "of": "i", "by": "u", "time": "t"}] * 2,
            },
            "`histories` and `aggregates` must have different names",
        ),
    ],
)
def test_invalid_option_combinations_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        DataOptions(**options)


def test_variables_in_paths_are_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSYS_TEST_DATA", str(tmp_path))
    (tmp_path / "criteo").mkdir()
    options = DataOptions(source="criteo", path="${RECSYS_TEST_DATA}/criteo")
    assert options.paths() == [tmp_path / "criteo"]
