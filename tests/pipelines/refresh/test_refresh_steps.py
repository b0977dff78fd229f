"""The experiment of a refreshed version is that of the run, on the columns that rows have."""

from pathlib import Path

from pipelines.refresh.refresh_steps import refreshed_keys
from tests.support.experiments import load

ROWS = {"user_id", "item_id", "price", "clicked_items"}


def test_columns_that_rows_lack_are_left_out(tmp_path: Path) -> None:
    experiment = load(
        tmp_path,
        evaluation__group="household",
        evaluation__baselines={"cheap": "price", "shown": "place"},
        evaluation__segments=["price", "device", ["price", "device"]],
        evaluation__slices=["device", "price"],
    )
    paths = {"train": ["a"], "valid": ["b"], "test": ["c"]}
    keys = refreshed_keys(experiment, paths, ROWS, tmp_path, tmp_path / "2", "request_id")
    assert keys["evaluation.group"] is None
    assert keys["evaluation.ceiling"] == {}
    assert keys["evaluation.baselines"] == {"cheap": "price"}
    assert keys["evaluation.segments"] == ["price"]
    assert keys["evaluation.slices"] == ["price"]
    assert (keys["data.behind"], keys["data.state_of"]) == (str(tmp_path), "all")


def test_gates_beside_another_run_are_beside_the_serving_version(tmp_path: Path) -> None:
    gate = {"task": "click", "metric": "auc", "at_least": 0.0}
    experiment = load(
        tmp_path, evaluation__gates=[{**gate, "at_least": 0.6}, {**gate, "against": "other"}]
    )
    paths = {"train": ["a"], "valid": ["b"], "test": ["c"]}
    keys = refreshed_keys(experiment, paths, ROWS, tmp_path, tmp_path / "2", None)
    against = [one["against"] for one in keys["evaluation.gates"]]
    assert against == [None] + [str(tmp_path / "2/serving")] * 5
