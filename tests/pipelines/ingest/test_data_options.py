"""The `[data]` table: invalid combinations and missing paths."""

import pytest
from pydantic import ValidationError

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions, SimulateOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "criteo", "simulate": {}}, "`simulate` belongs to the source 'simulate'"),
        ({"source": "csv"}, "`path` must name the csv file or folder"),
        ({"source": "frappe", "path": ["a", "b"]}, "`path` must be one file or folder"),
        (
            {
                "source": "movielens-1m",
                "histories": [{"name": "h", "of": "i", "by": "u", "time": "t"}] * 2,
            },
            "`histories` must have different names",
        ),
    ],
)
def test_invalid_option_combinations_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        DataOptions(**options)


def test_sizes_of_the_simulation_fit_each_other():
    with pytest.raises(ValidationError, match="half of `items`"):
        SimulateOptions(candidates=50, items=97)


def test_variables_in_paths_are_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSYS_TEST_DATA", str(tmp_path))
    (tmp_path / "criteo").mkdir()
    options = DataOptions(source="criteo", path="${RECSYS_TEST_DATA}/criteo")
    assert options.paths() == [tmp_path / "criteo"]


def test_an_unset_variable_says_how_to_set_it(monkeypatch):
    monkeypatch.delenv("RECSYS_TEST_DATA", raising=False)
    options = DataOptions(source="criteo", path="${RECSYS_TEST_DATA}/criteo")
    with pytest.raises(PipelineError, match="export RECSYS_TEST_DATA=/your/folder"):
        options.paths()


def test_a_missing_path_names_the_nearest(tmp_path):
    (tmp_path / "criteo").mkdir()
    options = DataOptions(source="criteo", path=str(tmp_path / "critoe"))
    with pytest.raises(PipelineError, match=r"no file or folder is at .*Did you mean .*/criteo"):
        options.paths()
