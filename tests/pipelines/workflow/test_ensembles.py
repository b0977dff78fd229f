"""Runs whose model is an ensemble: of other runs, or of one model with several seeds."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.experiment.training_options import TeacherOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics.probability import logit
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained
from pipelines.training.teacher import load_teacher
from pipelines.workflow.steps import Steps
from tests.pipelines.training.trainer import Trainer
from tests.support import shop
from tests.support.experiments import load
from tests.support.once import once

MLP = {"name": "mlp", "width": 4, "units": [5], "exclude": ["price"]}
LINEAR = {"name": "logistic_regression"}
TASKS = ("click", "conversion")


def _steps(run: Path, model: dict[str, Any], **overrides: Any) -> Steps:
    """The steps of the simulated experiment with a model, in a folder with data and features."""
    console = Console(file=io.StringIO(), width=200)
    experiment = load(run.parent, model=model, **overrides)
    return Steps.of(experiment, run, console, force=False)


def _printed(steps: Steps) -> str:
    assert isinstance(steps.console.file, io.StringIO)
    return steps.console.file.getvalue()


@pytest.fixture(scope="module")
def members(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A trained run, and one of another model whose weights are noise; not to be changed."""

    def make(folder: Path) -> None:
        for name in ("mlp", "noise"):
            shutil.copytree(prepared, folder / name)
        _steps(folder / "mlp", MLP, training__epochs=1).train()
        fitted = FittedFeatures.load(prepared / "features")
        (folder / "noise/model").mkdir()
        shop.linear_model(fitted).save(folder / "noise/model/model.keras")
        manifest = {"fingerprint": "noise", "versions": {"numpy": "1.0"}}
        (folder / "noise/model/manifest.json").write_text(json.dumps(manifest))

    folder = once(tmp_path_factory, "members", make)
    return [folder / "mlp", folder / "noise"]


def _of(runs: list[Path]) -> dict[str, Any]:
    return {"name": "ensemble", "runs": [str(run) for run in runs]}


@pytest.fixture(scope="module")
def whole(prepared: Path, members: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of their ensemble, with every step done; not to be changed."""

    def make(folder: Path) -> None:
        run = Path(shutil.copytree(prepared, folder / "run"))
        audits = {"evaluation__attention_rows": 50, "evaluation__relevance_rows": 50}
        steps = _steps(run, _of(members), training={}, **audits)
        steps.everything()
        (folder / "output.txt").write_text(_printed(steps))

    return once(tmp_path_factory, "ensemble", make) / "run"


def test_logits_are_the_weighted_mean_of_those_of_the_runs(
    whole: Path, members: list[Path]
) -> None:
    fitted, model = load_trained(whole, ())
    manifest = json.loads((whole / "model/manifest.json").read_text())
    test = Feed(DataSplit(whole / "data/test"), fitted, "request_id")
    model.calibrate({})
    actual = Scorer(model).score_labelled(test)[1]
    of_members = [Scorer(load_trained(run, ())[1]).score_labelled(test)[1] for run in members]
    for task in TASKS:
        weights = [member["weights"][task] for member in manifest["ensemble"]["members"]]
        logits = [logit(scores[task].astype("float64")) for scores in of_members]
        np.testing.assert_allclose(sum(weights), 1)
        np.testing.assert_allclose(
            logit(actual[task].astype("float64")), np.array(weights) @ logits, atol=1e-5
        )
    assert [member["run"] for member in manifest["ensemble"]["members"]] == list(map(str, members))
    assert set(manifest["calibration"]) == set(TASKS)
    output = (whole.parent / "output.txt").read_text()
    assert f"= {members[0]} " in output
    assert "ensemble: " in output
    assert "1.0, " in manifest["versions"]["numpy"] or ", 1.0" in manifest["versions"]["numpy"]


def test_an_ensemble_has_importance_alone(whole: Path) -> None:
    """Attention and relevance are those of its members."""
    metrics = json.loads((whole / "evaluation/metrics.json").read_text())
    assert metrics["attention"] is None
    assert all("relevance" not in of_task for of_task in metrics["tasks"].values())
    assert (whole / "report.html").exists()


def test_the_export_is_one_model_of_all_features(whole: Path) -> None:
    exported = tf.saved_model.load(str(whole / "export/tiny/1"))
    specs = exported.signatures["rank"].structured_input_signature[1]
    assert set(specs) == {"user_id", "item_id", "price", "clicked_items"}
    manifest = json.loads((whole / "export/tiny/1/manifest.json").read_text())
    assert manifest["parity"]["max_abs_difference"] < 1e-5


def test_an_ensemble_is_a_teacher(whole: Path) -> None:
    fitted, model = load_trained(whole, ())
    teacher = load_teacher(TeacherOptions(run=whole), fitted, model.schema.tasks)
    assert teacher.tasks == TASKS
    assert teacher.unread(fitted, model.schema) == ()


def test_more_seeds_leave_the_others_as_they_are(prepared: Path, tmp_path: Path) -> None:
    run, actual = Path(shutil.copytree(prepared, tmp_path / "run")), []
    for seeds in ([5], [5, 7]):
        _steps(run, {**LINEAR, "seeds": seeds}, training__epochs=1).train()
        steps = {path: path.stat().st_mtime_ns for path in run.glob("checkpoints/*/step-*")}
        actual.append((steps, _weights_of_members(run)))
    (first, [member]), (both, [same, other]) = actual
    assert {path.parent.name for path in both} == {"seed-5", "seed-7"}
    assert first.items() <= both.items()
    np.testing.assert_array_equal(same, member)
    assert np.abs(other - member).max() > 1e-3
    manifest = json.loads((run / "model/manifest.json").read_text())
    assert [one["seed"] for one in manifest["ensemble"]["members"]] == [5, 7]
    assert [len(one["training"]) for one in manifest["ensemble"]["members"]] == [1, 1]


@pytest.mark.thorough
def test_a_seed_is_trained_as_it_is_alone(prepared: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(prepared, tmp_path / "run"))
    _steps(run, {**LINEAR, "seeds": [5]}, training__epochs=1).train()
    alone = Trainer(prepared, tmp_path)(model=LINEAR, seed=5, training__epochs=1)
    expected = [weights.ravel() for weights in alone.embedding.get_weights()]
    np.testing.assert_array_equal(_weights_of_members(run)[0], np.concatenate(expected))


def _weights_of_members(run: Path) -> list[np.ndarray]:
    embedding: Any = load_trained(run, ())[1].embedding
    return [
        np.concatenate([weights.ravel() for weights in part.get_weights()])
        for part in embedding.embeddings
    ]


def test_runs_of_other_rows_are_refused(
    prepared: Path, members: list[Path], tmp_path: Path
) -> None:
    other = Path(shutil.copytree(members[0], tmp_path / "other"))
    manifest = json.loads((other / "data/manifest.json").read_text())
    manifest["settings"]["data"]["split"]["valid"] = 0.25
    (other / "data/manifest.json").write_text(json.dumps({**manifest, "data_hash": "0"}))
    run = Path(shutil.copytree(prepared, tmp_path / "run"))
    message = r"`model.runs\[1\]`: the rows of .* `data.split.valid` was 0.25 and is 0.1 now"
    with pytest.raises(PipelineError, match=message):
        _steps(run, _of([members[1], other]), training={}).train()


def test_folders_without_a_model_are_refused_at_once(prepared: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"`model.runs\[0\]`: .* is not the folder of a train"):
        _steps(tmp_path / "run", _of([prepared]), training={}).ingest()
    assert not (tmp_path / "run/data").exists()


def test_runs_without_a_task_are_refused(members: list[Path], tmp_path: Path) -> None:
    tasks = [{"name": "click"}, {"name": "conversion", "mask": "click"}]
    with pytest.raises(PipelineError, match=r"has no such task as 'conversion'"):
        _steps(tmp_path / "run", _of(members), training={}, tasks=tasks).ingest()
