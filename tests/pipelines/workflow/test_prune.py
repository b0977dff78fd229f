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

from pipelines.audit.removal import WithoutHeads
from pipelines.common.errors import PipelineError
from pipelines.feed.chunk import transform
from pipelines.training.load import load_trained
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import head_layers
from tests.integration.commands import error_of, invoke
from tests.support.experiments import QUICK, load, write
from tests.support.once import once

GATED = """name = "mmoe"
width = 4
experts = { number = 4, units = [6] }
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


@pytest.mark.thorough
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


ENCODED = """name = "din"
width = 4
encoder = { name = "transformer", num_layers = 2, num_heads = 3, head_dim = 2 }
target_attention = { name = "transformer", num_heads = 2 }
mlp_units = [8]"""


@pytest.fixture
def heads_run(prepared: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def finish(folder: Path) -> None:
        run = Path(shutil.copytree(prepared, folder / "run"))
        experiment = write(folder, (QUICK[0], ENCODED))
        for step in ("train", "evaluate", "export"):
            result = invoke(step, experiment, "--run-dir", run)
            assert result.exit_code == 0, result.output

    finished = once(tmp_path_factory, "with-heads", finish)
    return Path(shutil.copytree(finished / "run", tmp_path / "run"))


@pytest.mark.thorough
def test_run_without_gates_keeps_its_best_heads(heads_run: Path, tmp_path: Path) -> None:
    result = invoke("prune", heads_run, "--heads", "4", "--by", "confidence", "--epochs", "0")
    assert result.exit_code == 0, result.output
    facts = _manifest(tmp_path / "run-pruned", "model")["pruned"]
    kept = facts["heads"]
    assert sum(map(len, kept.values())) == 4
    assert {place: len(heads) > 0 for place, heads in kept.items()} == dict.fromkeys(kept, True)
    assert sum(count for count, _ in facts["kept"].values()) == 4
    assert sum(count for _, count in facts["kept"].values()) == 8
    fitted, model = load_trained(heads_run, ())
    rows = pq.read_table(heads_run / "data/test/part-00000.parquet")
    chunk = transform(rows, fitted, "request_id", labelled=False)
    layers = {place: layer.num_heads for place, layer in head_layers(model).items()}
    gone = {place: set(range(n)) - set(kept[str(place)]) for place, n in layers.items()}
    expected = WithoutHeads(model, chunk, layers)({p: sorted(h) for p, h in gone.items()})
    after = pq.read_table(tmp_path / "run-pruned/evaluation/predictions.parquet")
    for task, score in expected.items():
        np.testing.assert_allclose(after[f"{task}/score"], score, rtol=0, atol=1e-6)
    again = invoke("run", tmp_path / "run-pruned")
    assert "train: unchanged, skipped" in again.output


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--heads", "2"), "at least 3 heads, one for each place"),
        (("--heads", "8"), "fewer than all of them .encoder 1 of history: 3"),
        ((), "has no Hard-Concrete gates.* is pruned by `training.prune_heads`, or `--heads`"),
        (("--by", "confidence"), "Add `prune_heads`, or"),
    ],
)
def test_heads_that_do_not_fit_are_refused(heads_run: Path, options: Any, message: str) -> None:
    assert re.search(message, error_of(invoke("prune", heads_run, *options)))


def test_gates_say_themselves_what_is_kept(run: Path) -> None:
    message = error_of(invoke("prune", run, "--heads", "2"))
    assert "has gates (experts, fields), which say what is kept" in message


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.tower_units=[5]", "`model` of .* are not those of this experiment"),
        ("training.precision='mixed_bfloat16'", "`training.precision` of"),
        ("training.embeddings_stddev=0.1", "`training.embeddings_stddev` of"),
        (
            "training.optimizer='adam' training.embeddings_l2=0.1",
            "the penalty of whole tables, `training.embeddings_l2` of",
        ),
        ("training.warm_start='elsewhere'", "`prune` and `warm_start` are two models"),
    ],
)
def test_another_model_than_the_pruned_one_is_refused(run: Path, change: str, message: str) -> None:
    changes = [part for each in change.split() for part in ("--set", each)]
    assert re.search(message, error_of(invoke("prune", run, *changes)))


def test_heads_to_keep_need_a_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="`prune_heads` is a number of heads of the run"):
        load(tmp_path, training__prune_heads=3)


def test_no_epochs_without_a_pruned_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="`epochs` must be at least 1 without `prune`"):
        load(tmp_path, training__epochs=0)
