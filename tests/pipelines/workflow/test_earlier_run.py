"""A run behind another checks it, runs again when it changes, and continues its ids."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.features import FittedFeatures
from pipelines.workflow.steps import Steps
from tests.support.state_exports import later_rows, rows, users, write_experiment


def steps(folder: Path, name: str, **overrides: Any) -> Steps:
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    experiment = load_experiment(folder / "live.toml", named)
    return Steps.of(experiment, folder / name, Console(file=io.StringIO(), width=200), force=False)


def printed(run: Steps) -> str:
    run.ingest()
    run.fit()
    file = run.console.file
    return file.getvalue() if isinstance(file, io.StringIO) else ""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment, its rows, and a fitted run."""
    folder = tmp_path_factory.mktemp("earlier")
    write_experiment(folder, rows())
    pq.write_table(later_rows(), folder / "later.parquet")
    printed(steps(folder, "run"))
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(written / "run", tmp_path / "run")
    shutil.copy(written / "live.toml", tmp_path / "live.toml")
    return tmp_path


def behind(folder: Path, written: Path, **overrides: Any) -> Steps:
    earlier = {"data__behind": str(folder / "run"), "data__path": str(written / "later.parquet")}
    return steps(folder, "later", **{**earlier, **overrides})


def test_ids_go_on_and_a_change_runs_the_steps_again(folder: Path, written: Path) -> None:
    output = printed(behind(folder, written))
    assert f"behind {folder / 'run'}: 4 values are new: item 3, country 1" in output
    before, after = (FittedFeatures.load(folder / name / "features") for name in ("run", "later"))
    for name in ("item", "country"):
        known, all_values = (of.transforms[name].values.to_pylist() for of in (before, after))
        assert all_values[: len(known)] == known
    assert after.transforms["item_ctr"] == before.transforms["item_ctr"]
    again = printed(behind(folder, written))
    assert again.count("unchanged, skipped") == 2
    for name, step in (("features", "fit"), ("data", "ingest")):
        path = folder / "run" / name / "manifest.json"
        manifest = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**manifest, "fingerprint": "another"}), "utf-8")
        again = printed(behind(folder, written))
        assert f"{step}: done" in again
        assert again.count("unchanged, skipped") == (step == "fit")
    assert f"files changed: `data.behind` ({folder / 'run'}) has changed" in again


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"data__late": 60}, r"other definitions: `data.late` was not set and is 60.0 now"),
        ({"data__users__key": "id"}, r"`data.users.key` was \"user\" and is \"id\" now"),
        ({"data__behind": "nowhere"}, "nowhere is not the folder of a fitted run"),
    ],
)
def test_a_run_that_does_not_fit_is_named(
    folder: Path, written: Path, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        behind(folder, written, **overrides).ingest()
    assert not (folder / "later").exists()


def test_a_run_cannot_be_behind_itself(folder: Path, written: Path) -> None:
    with pytest.raises(PipelineError, match="is this run; expected an earlier one"):
        behind(folder, written, data__behind=str(folder / "later")).ingest()


def test_features_of_users_in_the_rows_stay(folder: Path, written: Path) -> None:
    """Later rows have the countries that a server used; heights come from the table."""
    run = behind(folder, written)
    run.ingest()
    made = pq.read_table(folder / "later" / "data" / "train").to_pylist()
    heights = {row["user"]: row["height"] for row in users().to_pylist()}
    assert {row["country"] for row in made} == {"xx"}
    for row in made:
        assert row["height"] == pytest.approx(heights.get(row["user"]))
