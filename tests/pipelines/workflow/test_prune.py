"""`recsys-attn prune`: a smaller run with the same scores, then trained on."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.training.load import load_trained
from recsys_attn.models import RankingModel
from tests.integration.commands import error_of, invoke
from tests.support.experiments import QUICK, load, write
from tests.support.once import once

GATED = """name = "mmoe"
width = 4
num_experts = 4
expert_units = [6]
tower_units = [3]
gates = "hard_concrete\""""
CLOSED = {"experts": [1, 3], "fields": [1, 3]}  # price and the history; item_id and user_id stay


def _gates(model: RankingModel) -> dict[str, Any]:
    return {"experts": model.tower.head.experts.experts.gate, "fields": model.tower.field_gate.gate}


def _finish(folder: Path, closed: dict[str, list[int]], prepared: Path) -> Path:
    """A finished run whose training is said to have closed these gates."""
    run = Path(shutil.copytree(prepared, folder / "run"))
    experiment = write(folder, (QUICK[0], GATED))
    assert invoke("train", experiment, "--run-dir", run).exit_code == 0
    model = keras.saving.load_model(run / "model/model.keras")
    for place, gate in _gates(model).items():
        chances = np.full(gate.log_alpha.shape, 9.0)
        chances[closed[place]] = -9.0
        gate.log_alpha.assign(chances)
    model.save(run / "model/model.keras")
    for step in ("evaluate", "export"):
        assert invoke(step, run).exit_code == 0
    return run


@pytest.fixture
def run(prepared: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    finished = once(tmp_path_factory, "gated", lambda folder: _finish(folder, CLOSED, prepared))
    return Path(shutil.copytree(finished / "run", tmp_path / "run"))


def _manifest(run: Path, folder: str) -> dict[str, Any]:
    return dict(json.loads((run / folder / "manifest.json").read_text()))


def test_pruned_run_scores_as_the_gated_one(run: Path, tmp_path: Path) -> None:
    result = invoke("prune", run, "--epochs", "0")
    assert result.exit_code == 0, result.output
    assert "kept: experts 2 of 4, fields 2 of 4" in result.output
    smaller = tmp_path / "run-pruned"
    facts = _manifest(smaller, "model")["pruned"]
    assert facts["kept"] == {"experts": [2, 4], "fields": [2, 4]}
    assert facts["largest_difference"] <= 1e-6
    before, after = (pq.read_table(r / "evaluation/predictions.parquet") for r in (run, smaller))
    for column in ("click/score", "conversion/score"):
        np.testing.assert_allclose(after[column], before[column], rtol=0, atol=1e-6)
    inputs = _manifest(smaller, "export/tiny/1")["signatures"]["serving_default"]["inputs"]
    assert set(inputs) == {"user_id", "item_id"}
    lines = {line.split("  ")[0]: line.split() for line in result.output.splitlines()}
    assert int(lines["pruned"][1].replace(",", "")) < int(lines["whole"][1].replace(",", ""))
    assert float(lines["pruned"][2]) < float(lines["whole"][2])
    assert (smaller / "data/train/part-00000.parquet").samefile(
        run / "data/train/part-00000.parquet"
    )


def test_pruned_run_is_a_run_like_any_other(run: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "smaller"
    assert invoke("prune", run, "--run-dir", smaller, "--epochs", "1").exit_code == 0
    assert [epoch["epoch"] for epoch in _manifest(smaller, "model")["training"]] == [1]
    models = [load_trained(folder, ())[1] for folder in (run, smaller)]
    for place, gate in _gates(models[1]).items():
        chances = keras.ops.convert_to_numpy(_gates(models[0])[place].log_alpha)
        np.testing.assert_array_equal(gate.log_alpha, np.delete(chances, CLOSED[place]))
    again = invoke("prune", run, "--run-dir", smaller, "--epochs", "1")
    assert all(f"{step}: unchanged, skipped" in again.output for step in ("train", "export"))
    whole = invoke("run", smaller)
    for step in ("ingest", "fit", "train", "evaluate", "export"):
        assert f"{step}: unchanged, skipped" in whole.output
    assert invoke("compare", run, smaller).exit_code == 0
    rows, scores = run / "data/test/part-00000.parquet", tmp_path / "scores.parquet"
    assert invoke("score", smaller, "--input", rows, "--output", scores).exit_code == 0
    assert "click_score" in pq.read_schema(scores).names
    features = json.loads((smaller / "evaluation/metrics.json").read_text())["features"]
    assert {feature["name"] for feature in features} == {"user_id", "item_id"}


def test_a_run_whose_gates_are_open_is_not_pruned(
    run: Path, tmp_path: Path, prepared: Path
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    whole = _finish(folder, {"experts": [], "fields": []}, prepared)
    message = error_of(invoke("prune", whole))
    assert "every gate of the model" in message
    assert "experts 4 of 4, fields 4 of 4. Raise the `penalty`" in message
    assert not (folder / "run-pruned/model").exists()


def test_a_run_without_an_export_is_not_finished(run: Path) -> None:
    shutil.rmtree(run / "export")
    assert "holds no export of the trained model: run `recsys-attn export" in error_of(
        invoke("prune", run)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.tower_units=[5]", "`model` of .* are not those of this experiment"),
        ("training.precision='mixed_bfloat16'", "`training.precision` of"),
        ("training.warm_start='elsewhere'", "`prune` and `warm_start` are two models"),
    ],
)
def test_another_model_than_the_pruned_one_is_refused(run: Path, change: str, message: str) -> None:
    assert re.search(message, error_of(invoke("prune", run, "--set", change)))


def test_no_epochs_without_a_pruned_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="`epochs` must be at least 1 without `prune`"):
        load(tmp_path, training__epochs=0)
