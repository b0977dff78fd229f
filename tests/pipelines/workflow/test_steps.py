"""The results of the steps, and the settings that each step depends on."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipelines.common.errors import GateError, PipelineError
from pipelines.experiment.step_fingerprints import config_hash
from pipelines.workflow.about_run import this_machine
from pipelines.workflow.steps import Steps
from serving.models.completeness import check_folder
from tests.integration.commands import finish, invoke
from tests.support.experiments import load
from tests.support.once import once

EXPORTED = {"saved_model.pb", "variables", "manifest.json", "assets.extra"}


def _steps(folder: Path, run: Path, **overrides: Any) -> Steps:
    console = Console(file=io.StringIO(), width=80)
    return Steps.of(load(folder, **overrides), run, console, force=False)


def _printed(steps: Steps) -> str:
    file = steps.console.file
    return file.getvalue() if isinstance(file, io.StringIO) else ""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with every step done; not to be changed."""
    return once(tmp_path_factory, "finished", finish) / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_run_leaves_every_folder_with_its_manifest(finished: Path, tmp_path: Path) -> None:
    version = finished / "export" / "tiny" / "1"
    manifests = {
        step: json.loads((finished / step / "manifest.json").read_text())
        for step in ("data", "features", "model", "evaluation", "export/tiny/1")
    }
    assert sum(manifests["data"]["rows"].values()) == 3000
    assert manifests["features"]["rows"] == manifests["data"]["rows"]["train"]
    assert set(manifests["features"]["table_rows"]) == {"user_id", "item_id", "clicked_items"}
    assert manifests["model"]["weights"] > 100
    assert [epoch["epoch"] for epoch in manifests["model"]["training"]] == [1, 2]
    assert manifests["evaluation"]["rows"] == manifests["data"]["rows"]["test"]
    exported = {p for p in (finished / "export/tiny/1").rglob("*") if p.is_file()}
    listed = {finished / "export/tiny/1" / name for name in manifests["export/tiny/1"]["files"]}
    assert exported - listed == {finished / "export/tiny/1/manifest.json"}
    assert check_folder(finished / "export/tiny/1").gap is None
    assert manifests["export/tiny/1"]["parity"]["max_abs_difference"] < 1e-5
    assert {path.name for path in version.iterdir()} > EXPORTED
    assert (finished / "report.html").stat().st_size > 10_000
    assert not list(finished.rglob(".*.new"))
    metrics = json.loads((finished / "evaluation" / "metrics.json").read_text())
    assert metrics["config_hash"] == config_hash(load(tmp_path))
    assert metrics["kept"] == manifests["model"]["kept"]
    kept = manifests["model"]["training"][metrics["kept"]["epoch"] - 1]
    assert metrics["kept"]["value"] == kept["val_monitored"]
    assert metrics["splits"] == manifests["data"]["rows"]
    train, valid, test = (metrics["times"][split] for split in ("train", "valid", "test"))
    assert train[0] < train[1] < valid[0] < valid[1] < test[0] < test[1]  # the split is by time
    assert metrics["settings"]["training.epochs"] == 2
    assert [feature["name"] for feature in metrics["features"]][:2] == ["user_id", "item_id"]
    drift = {entry["feature"]: entry for entry in metrics["drift"]}
    assert drift.keys() == {feature["name"] for feature in metrics["features"]}
    assert {entry["drifted"] for entry in drift.values()} <= {True, False}
    machines = metrics["machines"]
    assert machines["training"] == machines["evaluation"] == this_machine()
    assert machines["training"]["cores"] >= 1 < machines["training"]["memory"] / 2**20
    assert metrics["trained"] <= metrics["evaluated"] <= manifests["export/tiny/1"]["created"]
    known, positive = manifests["data"]["labels"]["click"]["train"]
    rate, counts = positive / known, metrics["tasks"]["click"]
    trivial = rate * counts["rows"] / counts["positives"]
    assert counts["trivial"]["calibration"] == pytest.approx(trivial)


def test_a_new_model_is_exported_as_a_new_version(run: Path, tmp_path: Path) -> None:
    steps = _steps(tmp_path, run, training__epochs=1)
    steps.train()
    steps.export()
    steps.export()
    assert sorted(path.name for path in (run / "export" / "tiny").iterdir()) == ["1", "2"]
    assert _printed(steps).splitlines()[-1].startswith("export: unchanged, skipped")
    assert json.loads((run / "export" / "tiny" / "2" / "manifest.json").read_text())["version"] == 2


@pytest.mark.thorough
def test_a_failed_gate_stops_the_export(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / "export")
    gates = [{"task": "click", "metric": "auc", "at_least": 0.01, "at_most": limit}
             for limit in (1.0, 0.02)]  # fmt: skip
    named = r"failed a gate.*gates\[1\]`: auc of click is 0\.\d{4}, expected 0.01 to 0.02"
    steps = _steps(tmp_path, run, evaluation__gates=gates)
    with pytest.raises(PipelineError, match=r"another configuration.*evaluate"):
        steps.export()  # the evaluation on disk has decided no gates
    with pytest.raises(GateError, match=named):
        steps.everything()
    assert "done" in _printed(steps).partition("evaluate: ...")[2]
    assert "failed" in _printed(steps)
    assert (run / "report.html").read_text().count("auc of click") == 2
    status = invoke("export", run)
    assert (status.exit_code, status.stderr.count("gates[1]")) == (4, 1)
    assert not (run / "export").exists()

    steps = _steps(tmp_path, run, evaluation__gates=gates[:1])
    steps.evaluate()
    steps.export()
    assert (run / "export" / "tiny" / "1" / "manifest.json").exists()


@pytest.mark.thorough
def test_a_gate_compares_with_the_newest_evaluation_of_another_run(
    finished: Path, run: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    gate = {"task": "click", "metric": "auc", "against": str(other), "at_least": 0}
    steps = _steps(tmp_path, run, evaluation__gates=[gate])
    steps.evaluate()
    (found,) = json.loads((run / "evaluation" / "metrics.json").read_text())["gates"]
    assert (found["value"], found["interval"], found["result"]) == (0, [0, 0], "passed")
    steps.evaluate()
    assert "evaluate: unchanged, skipped" in _printed(steps)
    _steps(tmp_path, other, evaluation__at=[5]).evaluate()
    steps = _steps(tmp_path, run, evaluation__gates=[gate])
    steps.evaluate()
    assert "evaluate: unchanged, skipped" not in _printed(steps)


def test_kept_weights_keep_their_versions(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished training has no step left when it goes on with other packages."""
    before = json.loads((run / "model" / "manifest.json").read_text())
    weights = _steps(tmp_path, run).load()[1].get_weights()
    for module in ("pipelines.workflow.run", "pipelines.training.trainer"):
        monkeypatch.setattr(f"{module}.versions", lambda: {"keras": "99"})
    steps = _steps(tmp_path, run)
    steps.train()
    after = json.loads((run / "model" / "manifest.json").read_text())
    assert after["fingerprint"] != before["fingerprint"]
    assert after["versions"] == before["versions"]
    for kept, trained in zip(steps.load()[1].get_weights(), weights, strict=True):
        np.testing.assert_array_equal(kept, trained)
    steps.train()
    assert _printed(steps).splitlines()[-1].startswith("train: unchanged, skipped")


def test_a_damaged_model_file_is_named(run: Path, tmp_path: Path) -> None:
    for content in (b"", (run / "model" / "model.keras").read_bytes()[:1000]):
        (run / "model" / "model.keras").write_bytes(content)
        with pytest.raises(PipelineError, match=r"model.keras cannot be read.*train --force"):
            _steps(tmp_path, run).load()


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"seed": 4}, None),
        ({"data__split__test": 0.2}, {"ingest"}),
        ({"data__simulate__rows": 4000}, {"ingest"}),
        ({"model__width": 5}, {"train"}),
        ({"model__exclude": ["price"]}, {"train"}),
        ({"training__epochs": 3}, {"train"}),
        ({"evaluation__split": "valid"}, {"evaluate"}),
        ({"export__tolerance": 1e-4}, {"export"}),
        ({"name": "other"}, {"evaluate", "export"}),  # the report's title; the export's folder
        (("min_count = 2", "min_count = 3"), {"fit"}),
        (("max_length = 5", "max_length = 4"), {"fit"}),
        (('name = "price"', 'name = "cost"'), {"ingest", "fit"}),
        (('dtype = "int64"', 'dtype = "string"'), {"ingest", "fit"}),
        (('name = "click"', 'name = "click"\nweight = 2'), {"train"}),
        (('name = "click"', 'name = "click"\nloss = "bpr"'), {"train"}),
        (('name = "click"', 'name = "click"\nmask = "seen"'), {"ingest", "train"}),
    ],
)
def test_each_setting_reaches_its_steps_and_the_hash(
    tmp_path: Path, change: tuple[str, str] | dict[str, Any], changed: set[str] | None
) -> None:
    one = load(tmp_path)
    other = load(tmp_path, **change) if isinstance(change, dict) else load(tmp_path, change)
    if changed is not None:
        before, after = one.settings, other.settings
        assert {step for step in before if before[step] != after[step]} == changed
    # Options of the export do not change the metrics.
    assert (config_hash(other) == config_hash(one)) == (changed == {"export"})


def test_a_changed_source_file_makes_ingest_run_again(tmp_path: Path, run: Path) -> None:
    source = tmp_path / "clicks"
    shutil.copytree(run / "data", source)
    values = {
        "data__source": "parquet",
        "data__path": str(source),
        "data__split": {"by": "provided"},
    }
    text = ("simulate = { rows = 3000, users = 50, items = 96 }\n", "")
    console = Console(file=io.StringIO(), width=80)
    experiment = load(tmp_path, text, **values)

    def command() -> Steps:
        return Steps.of(experiment, tmp_path / "new", console, force=False)

    for _ in range(2):
        command().ingest()
    assert _printed(command()).count("unchanged, skipped") == 1
    (source / "train" / "part-00000.parquet").touch()
    with pytest.raises(PipelineError, match=r"part-00000\.parquet has the same size but was"):
        command().fit()
    command().ingest()
    assert _printed(command()).count("unchanged, skipped") == 1


def test_baselines_stand_below_the_model(run: Path, tmp_path: Path) -> None:
    steps = _steps(tmp_path, run, evaluation__baseline_models=True)
    steps.evaluate()
    metrics = json.loads((run / "evaluation/metrics.json").read_text())
    train = metrics["splits"]["train"]
    assert metrics["baseline_models"] == {"rows": train, "train_rows": train}
    printed, page = _printed(steps), (run / "report.html").read_text()
    assert f"baselines: fitted on {train:,} train rows" in printed
    for task in metrics["tasks"].values():
        assert list(task["baseline_models"]) == ["logistic regression", "trees"]
        for name, baseline in task["baseline_models"].items():
            apart = task["auc"] - baseline["auc"]
            np.testing.assert_allclose(baseline["ahead"]["difference"], apart, atol=1e-12)
            assert f"{baseline['auc']:.4f}" in printed
            assert f"{name} <small>same columns</small>" in page
