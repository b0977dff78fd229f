"""A run folder keeps its experiment: later commands work from the folder alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipelines.experiment.config import load_experiment
from tests.integration.commands import error_of, finish, invoke
from tests.support.experiments import write
from tests.support.once import once

EPOCHS = "`training.epochs` was 2 and is 1 now"
CHANGED = ("--set", "training.epochs=1")
KEPT = "experiment.json"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """The experiment file with its run."""
    return Path(shutil.copytree(once(tmp_path_factory, "finished", finish), tmp_path / "copy"))


def _arguments(command: str, folder: Path) -> list[str]:
    files = ["--input", f"{folder}/run/data/test", "--output", f"{folder}/scores.parquet"]
    return files if command == "score" else ["--log", "x"] if command == "skew" else []


@pytest.mark.parametrize("command", ["run", "ingest", "fit", "train", "evaluate", "report"])
def test_a_finished_step_is_found_from_the_folder_alone(folder: Path, command: str) -> None:
    (folder / "experiment.toml").unlink()
    result = invoke(command, folder / "run")
    assert result.exit_code == 0, result.output
    steps = {"run": 5, "report": 0}.get(command, 1)
    assert result.stdout.count("unchanged, skipped") == steps
    assert f"report: written  {folder}/run/report.html" in result.stdout or command in (
        "ingest",
        "fit",
        "train",
    )


def test_scores_and_an_export_come_from_the_folder_alone(folder: Path) -> None:
    (folder / "experiment.toml").unlink()
    result = invoke("score", folder / "run", *_arguments("score", folder))
    assert result.exit_code == 0, result.output
    assert (folder / "scores.parquet").exists()
    result = invoke("export", folder / "run")
    assert "export: unchanged, skipped" in result.stdout


@pytest.mark.parametrize("command", ["evaluate", "report", "export", "score", "skew"])
def test_a_step_that_reads_another_training_names_the_key(folder: Path, command: str) -> None:
    path = write(folder, ("epochs = 2", "epochs = 1"))
    for given in ([path, "--run-dir", folder / "run"], [folder / "run", *CHANGED]):
        error = error_of(invoke(command, *given, *_arguments(command, folder)))
        assert f"model was made with another configuration: {EPOCHS}. To keep" in error
        assert f"pass {folder / 'run'} instead of the experiment file" in error


def test_what_was_set_is_kept_and_a_step_made_with_other_values_names_them(tmp_path: Path) -> None:
    path, run = write(tmp_path), tmp_path / "run"
    own = ("--set", "data.split.test=0.2", "--set", "training.epochs=1")
    assert invoke("ingest", path, "--run-dir", run, *own).exit_code == 0
    kept = load_experiment(run)
    assert (kept.data.split.test, kept.training.epochs) == (0.2, 1)
    assert "unchanged, skipped" in invoke("ingest", run).stdout

    printed = invoke("ingest", path, "--run-dir", run).stdout
    split = "`data.split.test` was 0.2 and is 0.1 now"
    epochs = "`training.epochs` was 1 and is 2 now"
    assert f"ingest: settings changed: {split}\n" in printed
    assert f"experiment: updated in the run folder: {split}; {epochs}\n" in printed
    assert load_experiment(run) == load_experiment(path)


def test_a_step_with_its_own_settings_leaves_those_of_the_others(folder: Path) -> None:
    before = (folder / "run" / KEPT).read_text()
    other = write(folder, ("[evaluation]", '[evaluation]\nsplit = "valid"'))
    result = invoke("export", other, "--run-dir", folder / "run")
    assert "export: unchanged, skipped" in result.stdout
    assert (folder / "run" / KEPT).read_text() == before
    result = invoke("report", other, "--run-dir", folder / "run")
    assert '`evaluation.split` was "test" and is "valid" now' in error_of(result)


def test_a_new_version_of_the_export_names_what_is_other_than_in_the_last(folder: Path) -> None:
    changes = ("--set", "name=other", "--set", "export.warmup_requests=0")
    printed = invoke("export", folder / "run", *changes).stdout
    line = printed.partition("export: settings changed: ")[2].partition("\n")[0]
    assert set(line.split("; ")) == {
        '`export.name` was "tiny" and is "other" now',
        "`export.warmup_requests` was 5 and is 0 now",
    }
    assert (folder / "run" / "export" / "other" / "1").is_dir()


def test_a_step_that_fails_keeps_the_experiment_of_what_is_there(folder: Path) -> None:
    before = (folder / "run" / KEPT).read_text()
    changes = ("--set", "model.width=-1", "--set", "seed=4")
    assert invoke("train", folder / "run", *changes).exit_code == 1
    assert (folder / "run" / KEPT).read_text() == before
