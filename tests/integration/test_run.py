"""A whole experiment through the command line, and its output."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.integration.commands import error_of, hidden_or_half, invoke

FILES = {
    "data/manifest.json",
    "data/train/part-00000.parquet",
    "data/valid/part-00000.parquet",
    "data/test/part-00000.parquet",
    "features/manifest.json",
    "features/features.json",
    "model/manifest.json",
    "model/model.keras",
    "evaluation/manifest.json",
    "evaluation/metrics.json",
    "evaluation/predictions.parquet",
    "report.html",
    "export/tiny/1/manifest.json",
    "export/tiny/1/saved_model.pb",
    "export/tiny/1/variables/variables.index",
    "export/tiny/1/assets.extra/tf_serving_warmup_requests",
}


def test_run_leaves_every_file_and_no_half_written_one(finished: Path) -> None:
    run = finished / "run"
    assert {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()} >= FILES
    assert hidden_or_half(run) == []


def test_output_fits_in_80_columns_and_names_every_step(finished: Path) -> None:
    output = (finished / "output.txt").read_text("utf-8")
    assert (finished / "errors.txt").read_text("utf-8") == ""
    trained = json.loads((finished / "run/model/manifest.json").read_text("utf-8"))
    sentences = trained["warnings"]  # of any length
    lines = [line.replace(str(finished), "") for line in output.splitlines()]
    lines = [line for line in lines if line.strip() not in sentences]
    assert max(map(len, lines)) <= 80
    starts = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    for step in ("ingest", "fit", "train", "evaluate", "export"):
        assert starts.count(step) == 2  # start and end
    assert f"report: written  {finished}/run/report.html" in output
    assert "parity on" in output


def test_second_run_skips_every_step(folder: Path) -> None:
    result = invoke("run", folder / "experiment.toml", "--run-dir", folder / "run")
    assert result.exit_code == 0
    for step in ("ingest", "fit", "train", "evaluate", "export"):
        assert f"{step}: unchanged, skipped" in result.stdout
    assert "epoch" not in result.stdout


def test_missing_column_of_the_evaluation_is_an_early_error(folder: Path) -> None:
    arguments = ("--run-dir", folder / "run", "--set", "evaluation.group=user")
    error = error_of(invoke("run", folder / "experiment.toml", *arguments))
    message = "the column 'user' (evaluation.group) is missing. Did you mean 'user_id'?"
    assert message in error


def test_batch_scores_of_rows_without_labels(folder: Path) -> None:
    experiment, run = folder / "experiment.toml", folder / "run"
    source, target = folder / "rows.parquet", folder / "deep" / "scores.parquet"
    table = pq.read_table(run / "data" / "test" / "part-00000.parquet")
    pq.write_table(table.drop_columns(["click", "conversion"]), source)
    arguments = ("--run-dir", run, "--input", source, "--output", target)
    result = invoke("score", experiment, *arguments)
    assert result.exit_code == 0, result.output
    assert f"score: {table.num_rows} rows  {target}" in result.stdout
    scores, expected = pq.read_table(target), run / "evaluation" / "predictions.parquet"
    for task in ("click", "conversion"):
        np.testing.assert_allclose(
            scores[f"{task}_score"], pq.read_table(expected)[f"{task}/score"], atol=1e-6
        )
    assert f"{run / 'nowhere'} does not exist" in error_of(
        invoke("score", experiment, *arguments[:3], run / "nowhere", *arguments[4:])
    )
    assert hidden_or_half(folder) == []


def test_compare_shows_runs_beside_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    metrics = json.loads((folder / "run" / "evaluation" / "metrics.json").read_text("utf-8"))
    result = invoke("compare", "run", folder / "run")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout  # a long path is folded
    assert "cannot be compared" not in result.stdout
    assert lines[1].split()[:3] == ["run", "attention_ranker", "3"]
    for task, found in metrics["tasks"].items():
        (at,) = (n for n, line in enumerate(lines) if line.split()[:1] == [task] and "AUC" in line)
        assert lines[at].split()[-2:] == ["logloss", "calibration"]
        cells = dict(zip(lines[at].split()[1:], lines[at + 1].split()[1:], strict=False))
        assert cells["AUC"] == f"{found['auc']:.4f}"
        assert cells["calibration"] == f"{found['calibration']:.3f}"
        (at,) = (n for n, line in enumerate(lines) if line.startswith(f"{task}, first 10 places"))
        assert lines[at].split()[-4:] == ["HR", "NDCG", "MRR", "MAP"]
        assert lines[at + 1].split()[2] == f"{found['at_k']['ndcg@10']:.4f}"

    same = [line for line in lines if " to " in line and "(" not in line]  # no verdict
    assert len(same) == 2  # tasks
    zero = "+0.0000"
    assert same[0].split()[-9:] == [zero, zero, "to", zero, "1.000", zero, zero, "to", zero]
    changed = shutil.copytree(folder / "run" / "evaluation", folder / "other" / "evaluation")
    (changed / "metrics.json").write_text(json.dumps({**metrics, "data_hash": "other"}), "utf-8")
    predictions = pq.read_table(changed / "predictions.parquet")
    at, table = predictions.column_names.index("click/score"), predictions
    low = pc.divide(predictions["click/score"], 100.0)  # the same order, other probabilities
    pq.write_table(table.set_column(at, "click/score", low), changed / "predictions.parquet")
    output = invoke("compare", "run", "other").stdout
    assert "cannot be compared" not in output  # the data may differ in columns
    line = next(line for line in output.splitlines() if " to " in line)
    auc, least, _, most, p, loss, low_loss, _, high_loss = line.split()[1:]
    assert [auc, least, most, p] == ["+0.0000", "+0.0000", "+0.0000", "1.000"]
    assert 0 < float(low_loss) < float(loss) < float(high_loss)

    verdict = "run and other cannot be told apart by the order for click: AUC +0.0000"
    result = invoke("report", "run", "--against", "other")
    assert result.exit_code == 0, result.output
    assert verdict in " ".join(result.stdout.split())
    assert "other and run cannot be told apart by the order" in " ".join(output.split())
    assert verdict in (folder / "run" / "report.html").read_text("utf-8")
    same = invoke("report", "run", "--against", "./run")
    assert "--against: run is compared with itself" in same.stderr
    pq.write_table(
        predictions.take(np.arange(len(predictions))[::-1]), changed / "predictions.parquet"
    )
    output = invoke("compare", "run", "other").stdout
    assert "other cannot be compared with run: its labels of task 'click' differ in" in output
    refused = invoke("report", "run", "--against", "other")
    assert refused.exit_code == 1
    assert "other cannot be compared with run: its labels" in refused.stderr
