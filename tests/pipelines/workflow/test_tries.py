"""Other models with the data and the features of a finished run."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.workflow.compare import print_comparison
from pipelines.workflow.steps import Steps
from pipelines.workflow.tries import try_models
from tests.integration.commands import finish
from tests.support.once import once


@pytest.fixture
def steps(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    finished = once(tmp_path_factory, "finished", finish) / "run"
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    return Steps.of(load_experiment(run), run, Console(file=io.StringIO(), width=200), force=False)


def test_models_are_tried_once_with_the_rows_of_the_run(steps: Steps) -> None:
    names = ["logistic_regression"]
    (folder,) = try_models(steps, names)
    assert folder == steps.run.folder / "tries/logistic_regression"
    for name in ("data/manifest.json", "features/features.json"):
        assert (folder / name).samefile(steps.run.folder / name)  # linked, not made again
    before = (folder / "model/manifest.json").stat().st_mtime_ns
    assert try_models(steps, names) == [folder]
    assert (folder / "model/manifest.json").stat().st_mtime_ns == before
    console = Console(file=io.StringIO(), width=200)
    print_comparison(console, [steps.run.folder, folder])
    assert "logistic_regression" in console.file.getvalue()
    assert "cannot be compared" not in console.file.getvalue()
    reached = json.loads((folder / "model/manifest.json").read_text())["kept"]["value"]
    assert f"{reached:.4f}" in console.file.getvalue()


def test_an_unknown_model_is_refused_before_any_training(steps: Steps) -> None:
    with pytest.raises(PipelineError, match=r"no model 'dinn'.*'din'"):
        try_models(steps, ["logistic_regression", "dinn"])
    assert not (steps.run.folder / "tries").exists()
