"""A run folder keeps its experiment: later commands work from the folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.experiment.config import load_experiment
from tests.integration.commands import error_of, invoke
from tests.support.experiments import write

EPOCHS = "`training.epochs` was 2 and is 1 now"
CHANGED = ("--set", "training.epochs=1")
KEPT = "experiment.json"


def _arguments(command: str, folder: Path) -> list[str]:
    files = ["--input", f"{folder}/run/data/test", "--output", f"{folder}/scores.parquet"]
    return files if command == "score" else ["--log", "x"] if command == "skew" else []


def test_commands_need_the_run_folder_alone(folder: Path) -> None:
    (folder / "experiment.toml").unlink()
    report = f"report: written  {folder}/run/report.html"
    for command in ("run", "ingest", "fit", "train", "evaluate", "export", "report"):
        result = invoke(command, folder / "run")
        assert result.exit_code == 0, result.output
        steps = {"run": 5, "report": 0}.get(command, 1)
        assert result.stdout.count("unchanged, skipped") == steps
        assert (report in result.stdout) == (command in ("run", "evaluate", "report"))
    result = invoke("score", folder / "run", *_arguments("score", folder))
    assert result.exit_code == 0, result.output
    assert (folder / "scores.parquet").exists()


def test_step_after_another_training_names_the_key(folder: Path) -> None:
    path = write(folder, ("epochs = 2", "epochs = 1"))
    for command in ("evaluate", "report", "export", "score", "skew"):
        for given in ([path, "--run-dir", folder / "run"], [folder / "run", *CHANGED]):
            error = error_of(invoke(command, *given, *_arguments(command, folder)))
            assert f"model was made with another configuration: {EPOCHS}. To keep" in error
            assert f"pass {folder / 'run'} instead of the experiment file" in error


def test_settings_are_kept_and_their_changes_named(tmp_path: Path) -> None:
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


def test_step_keeps_the_settings_of_other_steps(folder: Path) -> None:
    before = (folder / "run" / KEPT).read_text()
    other = write(folder, ("[evaluation]", '[evaluation]\nsplit = "valid"'))
    result = invoke("export", other, "--run-dir", folder / "run")
    assert "export: unchanged, skipped" in result.stdout
    assert (folder / "run" / KEPT).read_text() == before
    result = invoke("report", other, "--run-dir", folder / "run")
    assert '`evaluation.split` was "test" and is "valid" now' in error_of(result)


@pytest.mark.thorough
def test_new_export_names_its_changed_settings(folder: Path) -> None:
    changes = ("--set", "name=other", "--set", "export.warmup_requests=0")
    printed = invoke("export", folder / "run", *changes).stdout
    line = printed.partition("export: settings changed: ")[2].partition("\n")[0]
    assert set(line.split("; ")) == {
        '`export.name` was "tiny" and is "other" now',
        "`export.warmup_requests` was 5 and is 0 now",
    }
    assert (folder / "run" / "export" / "other" / "1").is_dir()


def test_failed_step_keeps_the_experiment(folder: Path) -> None:
    before = (folder / "run" / KEPT).read_text()
    changes = ("--set", "model.width=-1", "--set", "seed=4")
    assert invoke("train", folder / "run", *changes).exit_code == 1
    assert (folder / "run" / KEPT).read_text() == before
