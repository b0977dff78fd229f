"""Skew and drift of a real run: changes are found, and nothing else."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.common.errors import PipelineError
from pipelines.prediction_log.skew import SkewOptions, exported_versions, has_failed
from pipelines.workflow.steps import Steps
from tests.integration.commands import error_of, invoke
from tests.pipelines.prediction_log.serve import Service
from tests.serving.observability.prediction_log.calls import finished_files

Measure = Callable[..., dict[str, Any]]


def altered(table: pa.Table) -> pa.Table:
    """Prices in another currency, unknown users, histories that are lost."""
    rows = table.num_rows
    changes = {
        "price": pa.array(np.float32(100) * table["price"].to_numpy()),
        "user_id": pa.array(["nobody"] * rows),
        "clicked_items": pa.array([[]] * rows, table.schema.field("clicked_items").type),
    }
    for name, values in changes.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


@pytest.fixture(scope="module")
def other_log(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    with service.logging(folder) as serve:
        for number, table in enumerate(service.requests("train")[:150]):
            serve(altered(table), "rank", str(number))
    return folder


def test_same_data_has_neither_skew_nor_drift(
    steps: Steps, log: Path, written: Callable[[], str]
) -> None:
    found = steps.skew(SkewOptions(log))
    assert not has_failed(found)
    assert found["shifted"] == []
    rows = pq.read_table(steps.run.path("ingest") / "test").num_rows
    assert found["rows"] == rows
    assert found["recomputed"]["max_abs_difference"] <= steps.experiment.export.tolerance
    assert found["recomputed"]["note"] is None
    assert 0 < found["recomputed"]["rows"] <= rows
    # The scores are the evaluation's own, of the same rows.
    for task in found["tasks"].values():
        assert task["rows"] == rows
        assert task["psi"] == pytest.approx(0, abs=1e-6)
    assert "calibrated" in found["notes"][0]
    text = written()
    assert "statistics: " in text
    assert "scored again: largest difference" in text


def test_only_changed_features_have_shifted(measure: Measure, other_log: Path) -> None:
    found = measure(other_log)
    statuses = {name: part["status"] for name, part in found["features"].items()}
    assert statuses == {
        "user_id": "shifted",
        "item_id": "stable",
        "price": "shifted",
        "clicked_items": "shifted",
    }
    features = found["features"]
    assert set(found["shifted"]) >= {"user_id", "price", "clicked_items"}
    assert features["user_id"]["unknown"]["served"] == 1
    assert features["clicked_items"]["missing"]["served"] == 1
    assert features["clicked_items"]["lengths"]["served"]["max"] == 0
    price = features["price"]["quantiles"]
    assert price["served"]["p50"] == pytest.approx(100 * price["reference"]["p50"], rel=0.2)
    assert has_failed(found)
    # The world has changed; the computation has not.
    assert found["recomputed"]["max_abs_difference"] <= 1e-5


def rewritten(log: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The log with every row changed."""
    target.mkdir()
    for path in finished_files(log):
        table = pq.ParquetFile(path).read()
        rows = table.to_pylist()
        for row in rows:
            change(row)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), target / path.name)
    return target


def test_wrong_served_scores_are_found(measure: Measure, log: Path, tmp_path: Path) -> None:
    def wrong(row: dict[str, Any]) -> None:
        record = prediction_log_pb2.PredictionLog.FromString(row["log"])
        scores = record.predict_log.response.outputs["click"].float_val
        if row["request_id"] == "3":
            scores[0] += 0.125
        row["log"] = record.SerializeToString()

    found = measure(rewritten(log, tmp_path / "log", wrong), sample=10_000)
    click = found["recomputed"]["tasks"]["click"]
    assert click["max_abs_difference"] == pytest.approx(0.125, abs=1e-5)
    assert click["over"] == found["recomputed"]["over"] == 1
    assert click["where"]["request_id"] == "3"
    assert click["where"]["candidate"] == 0
    assert found["recomputed"]["tasks"]["conversion"]["over"] == 0
    assert has_failed(found)


def test_drift_by_day_and_by_hour(measure: Measure, log: Path, tmp_path: Path) -> None:
    begin = datetime(2026, 3, 1, 22)

    def spread(row: dict[str, Any]) -> None:
        row["time"] = begin + timedelta(hours=int(row["request_id"]) % 5)

    moved = rewritten(log, tmp_path / "log", spread)
    days = measure(moved)["periods"]
    assert [part["begin"] for part in days] == ["2026-03-01", "2026-03-02"]
    found = measure(moved, period="hour")
    assert [part["begin"][-5:] for part in found["periods"]] == [
        "22:00", "23:00", "00:00", "01:00", "02:00"
    ]  # fmt: skip
    assert sum(part["rows"] for part in found["periods"]) == found["rows"]
    some = measure(moved, since=datetime(2026, 3, 2), until=datetime(2026, 3, 2, 2))
    assert some["rows"] == sum(part["rows"] for part in found["periods"][2:4])
    with pytest.raises(
        PipelineError, match="no usable call of 'tiny': there are none in this time"
    ):
        measure(moved, since=datetime(2027, 1, 1))


def test_scores_of_other_versions_are_not_computed_again(
    measure: Measure, steps: Steps, service: Service, tmp_path: Path
) -> None:
    with service.logging(tmp_path, version=9) as serve:
        for number, table in enumerate(service.requests("test")[:5]):
            serve(table, "rank", str(number))
    found = measure(tmp_path)
    assert found["recomputed"]["calls"] == 0
    assert (
        "the log has version 9, and this run's model was exported as 1"
        in (found["recomputed"]["note"])
    )
    assert measure(tmp_path, versions=(9,))["recomputed"]["calls"] == 5
    assert exported_versions(steps.export_folder, "another training") == frozenset()


def test_other_rows_and_another_log_may_be_the_reference(
    measure: Measure, steps: Steps, log: Path, other_log: Path
) -> None:
    train = steps.run.path("ingest") / "train"
    by_train, by_rows = (
        measure(other_log, reference=reference, sample=0) for reference in (None, train)
    )
    assert by_rows["features"] == by_train["features"]
    assert by_rows["reference"] == str(train)
    same = measure(other_log, reference=other_log, sample=0)
    assert all(part["psi"] == 0 for part in same["features"].values())
    assert all(part["psi"] == 0 for part in same["tasks"].values())
    assert measure(other_log, reference=log, sample=0)["shifted"]


def test_without_evaluation_only_label_rates_are_compared(
    steps: Steps, log: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(steps.run.folder, tmp_path / "run"))
    shutil.rmtree(folder / "evaluation")
    found = Steps.of(steps.experiment, folder, steps.console, False).skew(SkewOptions(log))
    train = pq.read_table(folder / "data" / "train")
    for name, task in found["tasks"].items():
        assert task["psi"] is task["status"] is None
        labels = train[name].drop_null().to_numpy()
        assert task["label_rate"] == pytest.approx(labels.mean())
    assert found["score_reference"] == "the label rate of the train split"


def test_skew_command_writes_reports_and_exit_status(
    steps: Steps, log: Path, other_log: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(steps.run.folder, tmp_path / "run"))
    experiment = steps.run.folder.parent / "experiment.toml"
    common = ("skew", experiment, "--run-dir", folder, "--set", "training.epochs=1")
    assert invoke(*common, "--log", log, "--fail-on-shift").exit_code == 0
    result = invoke(*common, "--log", other_log, "--fail-on-shift")
    assert result.exit_code == 3, result.output
    assert f"skew: written  {folder}/skew.json  {folder}/skew.html" in result.stdout
    found = json.loads((folder / "skew.json").read_text())
    assert set(found["shifted"]) >= {"user_id", "price", "clicked_items"}
    page = (folder / "skew.html").read_text()
    for name in found["features"]:
        assert name in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "does not exist" in error_of(invoke(*common, "--log", tmp_path / "none"))


def test_calls_of_another_schema_are_left_out(
    measure: Measure, service: Service, tmp_path: Path
) -> None:
    with service.logging(tmp_path) as serve:
        serve(service.requests("test")[0], "rank", "good")
    bad = prediction_log_pb2.PredictionLog()
    bad.predict_log.request.model_spec.name = "tiny"
    with service.logging(tmp_path, request=bad.predict_log.request) as serve:
        serve(service.requests("test")[0], "rank", "bad")
    found = measure(tmp_path)
    assert found["unreadable"] == {"input 'user_id' is missing": 1}
    assert found["rows"] == service.requests("test")[0].num_rows
