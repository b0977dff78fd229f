"""The export with weights in fewer bits, through the steps."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.workflow.steps import Steps
from tests.integration.commands import finish
from tests.support.experiments import load
from tests.support.once import once


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    finished = once(tmp_path_factory, "finished", finish) / "run"
    return Path(shutil.copytree(finished, tmp_path / "run"))


def _steps(folder: Path, run: Path, **options: Any) -> tuple[Steps, io.StringIO]:
    output = io.StringIO()
    changed = {f"export__{key}": value for key, value in options.items()}
    console = Console(file=output, width=80)
    return Steps.of(load(folder, **changed), run, console, force=False), output


@pytest.mark.thorough
def test_small_weights_are_measured_beside_the_trained_ones(run: Path, tmp_path: Path) -> None:
    steps, output = _steps(tmp_path, run, tables="int8", tower="int8")
    steps.export()
    manifest = json.loads((run / "export/tiny/2/manifest.json").read_text())
    metrics = json.loads((run / "evaluation/metrics.json").read_text())
    weights = manifest["weights"]
    trained, small = weights["measured"].values()
    assert trained["auc"]["click"] == pytest.approx(metrics["tasks"]["click"]["auc"], abs=1e-6)
    assert small["auc"]["click"] == pytest.approx(trained["auc"]["click"], abs=0.01)
    assert small["bytes"] < 0.5 * trained["bytes"]
    assert 0 < weights["largest_change"] < 0.02
    (line,) = [s for s in output.getvalue().splitlines() if s.startswith("tables int8, tower int8")]
    assert len(line) <= 80
    tables = {
        version: (run / f"export/tiny/{version}/variables").glob("*.data*") for version in (1, 2)
    }
    sizes = {version: sum(f.stat().st_size for f in files) for version, files in tables.items()}
    assert sizes[2] < 0.6 * sizes[1]


def test_score_that_changes_too_much_stops_the_export(run: Path, tmp_path: Path) -> None:
    steps, _ = _steps(tmp_path, run, tables="int8", weights_tolerance=1e-9)
    with pytest.raises(PipelineError, match=r"a score changes by .*, so nothing was exported"):
        steps.export()
    assert not (run / "export/tiny/2").exists()
