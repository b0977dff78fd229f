"""The online report: its numbers are those of an evaluation of the same rows, to the last bit."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.artifacts import without_nan
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation import evaluate as evaluation
from pipelines.experiment.config import Experiment
from pipelines.feed.chunk import labels_of
from pipelines.metrics import task_metrics
from pipelines.online.report import OnlineOptions, measure_online
from pipelines.storage.dataset import DataSplit
from tests.support.served_rows import ServedHours

METRICS = ("auc", "gauc", "logloss", "calibration")


def evaluated(
    experiment: Experiment, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What `evaluate` finds for a model that gives the served scores."""
    split = DataSplit(folder)
    table = pa.concat_tables(list(split.batches(split.columns)))
    tasks = experiment.tasks
    labels = dict(zip((t.name for t in tasks), labels_of(table, tasks).T, strict=True))
    scores = {task.name: table[f"served_score_{task.name}"].to_numpy() for task in tasks}
    monkeypatch.setattr(evaluation, "score_split", lambda *_: (labels, scores))
    monkeypatch.setattr(evaluation, "Feed", lambda *_: None)
    no_audit = SimpleNamespace(of_tasks=dict, attention=lambda: None, taken={})
    monkeypatch.setattr(evaluation, "Audits", lambda *_: no_audit)
    known = SimpleNamespace(schema=experiment.model_schema)
    progress = Progress(Console(file=io.StringIO()))
    of: Any = (experiment, split, "request_id", known, known, progress)
    return without_nan(evaluation.evaluate(*of)[1])


@pytest.mark.parametrize("group", ["user_id", None])
def test_numbers_equal_an_evaluation_to_the_last_bit(
    experiment: Experiment, rows: Path, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped = experiment.evaluation.model_copy(update={"group": group})
    changed = experiment.model_copy(update={"evaluation": grouped})
    offline = evaluated(changed, rows, monkeypatch)
    online = measure_online(OnlineOptions(rows), changed)
    assert online["group"] == (group or "request_id")
    assert online["whole"]["rows"] == offline["rows"]
    for task, report in online["whole"]["tasks"].items():
        expected = offline["tasks"][task]
        intervals = {name: expected["intervals"][name] for name in METRICS}
        assert report == {**{name: expected[name] for name in report}, "intervals": intervals}
        assert all(report[name] is not None for name in METRICS)


def test_versions_and_periods_hold_their_rows_alone(
    experiment: Experiment, rows: Path, hours: ServedHours
) -> None:
    table, columns = hours.table(), hours.columns
    online = measure_online(OnlineOptions(rows), experiment)
    assert [(v["version"], v["label"]) for v in online["versions"]] == [
        (7, "stable"),
        (8, "canary"),
    ]
    for version in online["versions"]:
        parts = [(columns["version"] == version["version"], version)]
        for hour, part in enumerate(version["periods"]):
            assert part["begin"] == f"2026-11-29 {7 + hour:02}:00"
            parts.append((parts[0][0] & (columns["hour"] == hour), part))
        assert len(parts) == hours.hours + 1
        for inside, part in parts:
            # The file of an hour keeps the order of its rows.
            order = np.flatnonzero(inside)
            expected = task_metrics(
                columns["label"][order],
                table["served_score_click"].to_numpy()[order],
                groups=table["user_id"].to_numpy()[order],
            )
            click = part["tasks"]["click"]
            assert click["rows"] == part["rows"] == inside.sum()
            for metric in METRICS:
                assert click[metric] == expected[metric]
                assert click["intervals"][metric] == expected["intervals"][metric]
            assert part["missing"]["price"] == columns["missing"][inside].sum() / inside.sum()


def test_days_hold_all_their_hours(experiment: Experiment, rows: Path) -> None:
    online = measure_online(OnlineOptions(rows, period="day"), experiment)
    for version in online["versions"]:
        (day,) = version["periods"]
        assert day["begin"] == "2026-11-29"
        assert {name: version[name] for name in day if name != "begin"} == {
            name: value for name, value in day.items() if name != "begin"
        }


def test_store_is_counted_by_answer(experiment: Experiment, rows: Path, hours: ServedHours) -> None:
    first = np.arange(0, len(hours.columns["lag"]), 3)  # of each answer, with 3 candidates
    of = {name: column[first] for name, column in hours.columns.items()}
    online = measure_online(OnlineOptions(rows), experiment)
    for version in online["versions"]:
        inside = of["version"] == version["version"]
        lags = of["lag"][inside]
        assert version["store"]["answers"] == version["store"]["with_store"] == inside.sum()
        degraded = (of["state"][inside] == "degraded").mean()
        assert version["store"]["degraded"] == degraded
        assert version["store"]["lag_median"] == pytest.approx(np.median(lags), rel=1e-6)
        assert version["store"]["lag_99"] == pytest.approx(np.quantile(lags, 0.99), rel=1e-6)


def test_answers_without_a_store_have_no_share(experiment: Experiment, tmp_path: Path) -> None:
    hours = ServedHours(hours=1, requests=50)
    hours.columns["state"][:] = None
    hours.columns["lag"][:] = np.nan
    online = measure_online(OnlineOptions(hours.write(tmp_path / "rows")), experiment)
    store = online["whole"]["store"]
    assert store == {
        "answers": 50, "with_store": 0, "degraded": None, "lag_median": None, "lag_99": None,
    }  # fmt: skip


def test_only_rows_of_the_time_are_read(
    experiment: Experiment, hours: ServedHours, tmp_path: Path
) -> None:
    folder = hours.write(tmp_path / "rows")
    file = sorted(folder.glob("*.parquet"))[1]
    file.rename(folder / "2023-01-01T00.parquet")  # rows may have a time of their own
    since, until = datetime(2026, 11, 29, 8, 20), datetime(2026, 11, 29, 10, 0, 30)
    online = measure_online(OnlineOptions(folder, since, until), experiment)
    second = hours.columns["hour"] * 3600 + hours.columns["second"]
    expected = ((second >= 4800) & (second < 3 * 3600 + 30)).sum()
    assert online["whole"]["rows"] == expected
    with pytest.raises(PipelineError, match="has no rows in this time"):
        measure_online(OnlineOptions(folder, datetime(2027, 1, 1)), experiment)


def test_mask_leaves_rows_of_a_task_out(experiment: Experiment, rows: Path) -> None:
    click, conversion = experiment.tasks
    masked = (click, replace(conversion, mask="click"))
    online = measure_online(OnlineOptions(rows), experiment.model_copy(update={"tasks": masked}))
    tasks = online["whole"]["tasks"]
    assert tasks["conversion"]["rows"] == tasks["click"]["positives"]


def test_rows_without_the_group_have_requests_as_groups(experiment: Experiment, rows: Path) -> None:
    other = experiment.evaluation.model_copy(update={"group": "household"})
    online = measure_online(
        OnlineOptions(rows), experiment.model_copy(update={"evaluation": other})
    )
    assert (online["group"], online["group_missing"]) == ("request_id", "household")


def test_wrong_folders_are_named(experiment: Experiment, rows: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"click": [1]}), tmp_path / "other.parquet")
    with pytest.raises(
        PipelineError, match="not a file of served rows: it has no column 'served_at"
    ):
        measure_online(OnlineOptions(tmp_path), experiment)
    with pytest.raises(PipelineError, match=r"folder of served rows .* does not exist"):
        measure_online(OnlineOptions(tmp_path / "none"), experiment)
    other = (*experiment.tasks[:1], type(experiment.tasks[0])("buy"))
    with pytest.raises(PipelineError, match=r"has no column 'buy'. Give `--run` the run"):
        measure_online(OnlineOptions(rows), experiment.model_copy(update={"tasks": other}))
