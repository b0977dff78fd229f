"""The loop of decisions, with steps that are cheap: none trains, evaluates or exports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.artifacts import METRICS, atomic_directory
from pipelines.common.errors import GateError, PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.ingest import ingest
from pipelines.refresh.history import History
from pipelines.refresh.refresh_steps import RefreshSteps
from serving.state.saved import SavedState
from tests.pipelines.ingest.test_behind import cells
from tests.pipelines.refresh.conftest import Refresh, decisions
from tests.pipelines.refresh.served_days import hour_name, this_hour, write_hours
from tests.support.state_exports import rows as first_rows

GATE = {"metric": "auc", "task": "click", "segment": None, "by": "value", "interval": None}
HELD_OUT = ("refresh/{}/data/valid", "refresh/{}/data/test")


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(autouse=True)
def auc(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The difference of AUC of each version to come; without one, 0.01."""
    differences: list[float] = []

    def evaluate(steps: RefreshSteps) -> None:
        if not (steps.run.path("evaluate") / METRICS).exists():
            value = differences.pop(0) if differences else 0.01
            result = "passed" if value > 0 else "failed"
            gates = [{**GATE, "value": value, "result": result}]
            with atomic_directory(steps.run.path("evaluate")) as folder:
                (folder / METRICS).write_text(json.dumps({"gates": gates}), "utf-8")
        (gate,) = json.loads((steps.run.path("evaluate") / METRICS).read_text("utf-8"))["gates"]
        if gate["result"] == "failed":
            raise GateError("a gate")

    def export(steps: RefreshSteps) -> None:
        target = steps.export_folder / str(steps.version)
        if not target.exists():
            with atomic_directory(target):
                pass

    for name, step in (("evaluate", evaluate), ("export", export)):
        monkeypatch.setattr(RefreshSteps, name, step)
    monkeypatch.setattr(RefreshSteps, "train", lambda steps: None)
    monkeypatch.setattr(RefreshSteps, "evaluate_beside", lambda steps, serving: None)
    return differences


def split_names(run: Path, version: int) -> dict[str, list[str]]:
    names: dict[str, list[str]] = json.loads((run / f"refresh/{version}/rows.json").read_text())
    return names


def test_a_canary_is_published_tried_and_promoted(run: Path, refresh: Refresh) -> None:
    hour = this_hour()
    rows = run.parent / "rows"
    write_hours(rows, hour - 9, 7)
    assert "version 2 is published: auc of click is 0.0100 (passed)" in refresh()
    assert "version 2 is the canary: it waits for 300 rows and has 0" in refresh()
    write_hours(rows, hour + 1, 3, versions=(1, 2))
    assert "it waits for 300 rows and has 270" in refresh()
    write_hours(rows, hour + 4, 7, seed=10, versions=(1, 2), requests=211)
    printed = refresh()
    assert "version 2 is promoted: 2,475 rows against 2,505; AUC of click: 0." in printed
    assert "version 3, behind version 2" in printed
    assert decisions(run) == [
        (1, "adopted"),
        (2, "published"),
        (2, "promoted"),
        (3, "published"),
    ]
    first, second = split_names(run, 2), split_names(run, 3)
    assert not set(first["train"]) & {name for of in second.values() for name in of}
    assert {*first["valid"], *first["test"]} <= set(second["train"])


def test_faulty_canary_is_rolled_back_and_its_rows_are_used_again(
    run: Path, refresh: Refresh
) -> None:
    hour = this_hour()
    rows = run.parent / "rows"
    write_hours(rows, hour - 9, 7)
    refresh()
    write_hours(rows, hour + 1, 5, versions=(1, 2), requests=211, missing=2)
    printed = refresh()
    assert "version 2 is rolled back: 100% of item_ctr missing, 0% of the stable" in printed
    assert "version 3, behind version 1" in printed
    assert set(split_names(run, 2)["train"]) <= set(split_names(run, 3)["train"])
    config = (run / "serving.config").read_text()
    assert "versions: 1 versions: 3 " in config
    assert History.of(run).chain(3) == [3, 1]


def test_refused_version_never_serves(run: Path, refresh: Refresh, auc: list[float]) -> None:
    hour = this_hour()
    write_hours(run.parent / "rows", hour - 9, 5)
    auc += [-0.01]
    assert "version 2 is refused: auc of click is -0.0100 (failed)" in refresh()
    assert "nothing to train on" in refresh()  # the same rows would be refused again
    write_hours(run.parent / "rows", hour - 4, 3)
    assert "version 3, behind version 1" in refresh()
    assert decisions(run) == [(1, "adopted"), (2, "refused"), (3, "published")]
    assert "2" not in {path.name for path in (run / "export/live").iterdir()}
    assert "versions: 2" not in (run / "serving.config").read_text()
    assert set(split_names(run, 2)["train"]) <= set(split_names(run, 3)["train"])


def test_without_a_canary_a_version_serves_at_once(run: Path, refresh: Refresh) -> None:
    write_hours(run.parent / "rows", this_hour() - 9, 5)
    refresh(refresh__rows=0)
    assert decisions(run)[1:] == [(2, "published"), (2, "promoted")]
    assert "specific { versions: 2 }" in (run / "serving.config").read_text()


def test_state_has_each_trained_row_once(run: Path, refresh: Refresh, auc: list[float]) -> None:
    """After five days of which one is refused: that of one log of all rows trained on."""
    hour, rows = this_hour(), run.parent / "rows"
    auc += [0.01, -0.01]
    for day in range(5):
        write_hours(rows, hour - 40 + 7 * day, 7)
        refresh(refresh__rows=0)
    history = History.of(run)
    assert history.chain(history.stable) == [6, 5, 4, 2, 1]
    names = [name for version in (2, 4, 5, 6) for name in split_names(run, version)["train"]]
    assert names == sorted({*names})
    saved = SavedState.open(run / "refresh/6/data/state")
    columns = first_rows().column_names
    log = [first_rows(), *(pq.read_table(rows / name, columns=columns) for name in names)]
    whole = pa.concat_tables(table.cast(first_rows().schema) for table in log)
    pq.write_table(whole, run.parent / "log.parquet")
    data = json.loads((run / "experiment.json").read_text())["data"]
    options = DataOptions(**{**data, "path": str(run.parent / "log.parquet")})
    ingest(options, None, 0, run.parent / "data")
    expected = SavedState.open(run.parent / "data/state")
    assert (saved.newest, cells(saved)) == (expected.newest, cells(expected))


def left(run: Path) -> dict[str, Any]:
    """What a refreshed run leaves, without times."""
    files = [run / "serving.config", *sorted(run.glob("refresh/*/rows.json"))]
    files += sorted(run.glob("refresh/*/data/*/*.parquet"))
    content = {str(path.relative_to(run)): path.read_bytes() for path in files}
    return content | {"decisions": decisions(run)}


def test_killed_at_every_write_the_decisions_are_the_same(
    tmp_path: Path, run: Path, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, auc: list[float]
) -> None:
    auc += [0.01, -0.01]
    rows, hour = run.parent / "rows", this_hour()
    write_hours(rows, hour - 9, 5)
    ends = write_hours(tmp_path / "later", hour + 1, 5, versions=(1, 2), requests=61)

    def days(call: Any) -> None:
        call()
        for name in ends:
            shutil.copy(tmp_path / "later" / name, rows)
        call()

    whole = Path(shutil.copytree(run, tmp_path / "untouched"))
    days(refresh)
    expected = left(run)
    assert [what for _, what in expected["decisions"]] == [
        "adopted",
        "published",
        "promoted",
        "refused",
    ]
    shutil.rmtree(run)
    whole.rename(run)
    for name in ends:
        (rows / name).unlink()
    auc += [0.01, -0.01]
    writes: set[str] = set()

    def killed() -> None:
        """Calls until nothing is killed; a process dies after each file and folder is written."""
        dies = True
        while dies:
            dies = False

            def write(source: Path, target: Path, of: Any) -> Path:
                after: Path = of(source, target)
                name = f"{len(decisions(run))} {target}"
                if name not in writes:
                    writes.add(name)
                    raise Killed
                return after

            with monkeypatch.context() as patch:
                for method in ("replace", "rename"):
                    of = getattr(Path, method)
                    patch.setattr(Path, method, lambda a, b, of=of: write(a, b, of))
                try:
                    refresh()
                except Killed:
                    dies = True

    days(killed)
    assert {Path(name).name for name in writes} > {"history.jsonl", "serving.config", "data", "2"}
    assert len(writes) > 15
    assert left(run) == expected


def test_column_that_the_state_alone_reads_is_named(run: Path, refresh: Refresh) -> None:
    rows = run.parent / "rows"
    for name in write_hours(rows, this_hour() - 9, 5):
        pq.write_table(pq.read_table(rows / name).drop_columns(["user"]), rows / name)
    with pytest.raises(PipelineError, match="--data: the rows have no column 'user', which"):
        refresh()
    assert not (run / "refresh/2").exists()


def test_few_rows_are_said_and_the_next_call_goes_on(run: Path, refresh: Refresh) -> None:
    hour, rows = this_hour(), run.parent / "rows"
    write_hours(rows, hour - 9, 2)
    assert "nothing to train on: a version needs three files" in refresh()
    names = write_hours(rows, hour - 7, 1, requests=1)
    table = pq.read_table(rows / names[0])
    for name in (hour_name(hour - 9), hour_name(hour - 8)):
        none = pa.array(np.zeros(183, np.int8))
        of_hour = pq.read_table(rows / name)
        place = of_hour.column_names.index("click")
        pq.write_table(of_hour.set_column(place, "click", none), rows / name)
    assert table.num_rows == 3
    with pytest.raises(PipelineError, match="click"):
        refresh()
    assert decisions(run) == [(1, "adopted")]
    write_hours(rows, hour - 6, 5)
    assert "version 2 is published" in refresh()
