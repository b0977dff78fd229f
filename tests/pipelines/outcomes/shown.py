"""Random logs of a small model, outcomes of them, and their join by slow loops."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.engines import LOCAL, Engine
from pipelines.features.fit import fit
from pipelines.outcomes.call_log import CallLog
from pipelines.outcomes.join import Joined, JoinSource, join
from pipelines.outcomes.layout import Layout
from pipelines.outcomes.outcome_files import OutcomeColumns, files_of
from pipelines.outcomes.periods import Periods
from pipelines.outcomes.row_times import RowTimes
from pipelines.prediction_log.log_folder import LogFolder
from recsys_attn.schema import Categorical, Numeric, Schema, Task
from serving.encoding.codec import encode
from serving.observability.prediction_log.log_files import LogFiles, Row

SCHEMA = Schema(
    (
        Categorical("item", dtype="int64"),
        Numeric("price"),
        Categorical("country", "context"),
    ),
    (Task("click"), Task("buy", label="bought", mask="click")),
)
LABELS = ("click", "bought")
TIMES = {
    "seconds": RowTimes("time", pa.int64(), 1),
    "microseconds": RowTimes("time", pa.timestamp("us"), 10**6),
    "answer": RowTimes(),
}
BEGIN = int(datetime(2026, 3, 1, 22, tzinfo=UTC).timestamp())
HOURS = 5
WINDOW = 1800


@dataclass(frozen=True)
class Shown:
    """A logged call: a request of one user and some items."""

    at: int  # microseconds of the arrival
    request_id: str
    version: int
    user: str | None
    items: tuple[int, ...]
    label: str = ""
    lag: float | None = None
    as_of: int | None = None  # seconds, if a store completed it

    @property
    def answered(self) -> int:
        """Microseconds of the answer, 5 milliseconds after the arrival."""
        return self.at + 5000

    @property
    def prices(self) -> list[float]:
        return [0.5 * item for item in self.items]

    @property
    def scores(self) -> list[float]:
        return [1 / (item + self.version) for item in self.items]

    def time(self, times: RowTimes) -> int:
        """The time of its rows in ticks."""
        if self.as_of is not None:
            return self.as_of * times.per_second
        return self.at * times.per_second // 10**6


@dataclass(frozen=True)
class Event:
    """An outcome."""

    request_id: str
    user: str | None
    item: int
    at: int  # microseconds
    click: int | None
    bought: int | None


def random_calls(seed: int, calls: int = 43, with_state: bool = False) -> list[Shown]:
    """Calls of some hours, with requests that two versions answered and some that came twice."""
    rng = np.random.default_rng(seed)
    log = []
    for number, second in enumerate(rng.integers(0, HOURS * 3600, calls)):
        at = (BEGIN + int(second)) * 10**6 + int(rng.integers(10**6))
        items = tuple(rng.choice(7, rng.integers(1, 5)).tolist())  # an item may come twice
        user = str(rng.choice(["u1", "u2", "日"])) if rng.random() < 0.9 else None
        one = Shown(at, f"r{number}", int(rng.integers(1, 3)), user, items)
        if with_state and rng.random() < 0.7:
            one = dataclasses.replace(one, as_of=at // 10**6, lag=0.25)
        log.append(one)
        if rng.random() < 0.3:  # again, by the same or by the other version
            later = int(rng.choice([1, 100, WINDOW])) * 10**6
            version = int(rng.integers(1, 3))
            again = dataclasses.replace(one, at=at + later, version=version, as_of=None, lag=None)
            log.append(again)
    return log


def random_events(seed: int, calls: Sequence[Shown], events: int = 211) -> list[Event]:
    """Outcomes before, at and after the window of a call, some of them of no call."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(events):
        of = calls[int(rng.integers(len(calls)))]
        item = int(rng.choice(of.items)) if rng.random() < 0.9 else 97
        second = 10**6
        shifts = [-second, -1, 0, 1, 60 * second, WINDOW * second, WINDOW * second + second]
        start = of.at if of.as_of is None else of.as_of * second
        at = start + int(rng.choice(shifts))
        request = of.request_id if rng.random() < 0.9 else "never logged"
        click, bought = (int(rng.integers(2)) if rng.random() < 0.8 else None for _ in range(2))
        made.append(Event(request, of.user, item, at, click, bought))
        if rng.random() < 0.2:
            made.append(made[-1])
    return made


def write_log(folder: Path, calls: Iterable[Shown], per_file: int = 7, rate: float = 1.0) -> None:
    """Writes a log."""
    files = LogFiles(folder, max_rows=per_file)
    for call in calls:
        files.append(_row(call, rate))
    files.finish()


def _row(call: Shown, rate: float) -> Row:
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.sampling_config.sampling_rate = rate
    inputs: dict[str, np.ndarray] = {
        "item": np.array([call.items]),
        "price": np.array([call.prices], np.float32),
        "country": np.array([b"fi"], object),
    }
    if call.user is not None:
        inputs["user"] = np.array([call.user.encode()], object)
    for name, array in inputs.items():
        encode(array, log.predict_log.request.inputs[name], content=True)
    encode(np.array([call.scores], np.float32), log.predict_log.response.outputs["click"])
    state = ""
    if call.lag is not None:
        as_of = "" if call.as_of is None else str(call.as_of)
        state = json.dumps(
            {"as_of": as_of, "lag_seconds": call.lag, "is_degraded": call.as_of is None}
        )
    return Row(
        call.answered, call.request_id, "live", call.version, "Predict", "rank", 5.0,
        log.SerializeToString(), state=state,
    )  # fmt: skip


def write_events(path: Path, events: Sequence[Event], times: RowTimes) -> None:
    """Writes a file of outcomes: Parquet, or JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "time"
    if path.suffix == ".jsonl":
        lines = []
        for event in events:
            time: Any = event.at // 10**6
            if times.kind != pa.int64():
                time = str(np.datetime64(event.at, "us"))
            of = dataclasses.asdict(event)
            lines.append(json.dumps({**of, name: time, "device": "phone"}))
        path.write_text("".join(line + "\n" for line in lines), "utf-8")
        return
    columns: dict[str, Any] = {
        field.name: [getattr(event, field.name) for event in events]
        for field in dataclasses.fields(Event)
    }
    at = np.array(columns.pop("at"), np.int64)
    time = pa.array(at // 10**6)
    if times.kind != pa.int64():
        time = pa.array(1000 * at).cast(pa.timestamp("ns"))
    kinds = [(name, pa.int8()) for name in LABELS]
    table = pa.table({**columns, name: time})
    for label, kind in kinds:
        place = table.column_names.index(label)
        table = table.set_column(place, label, table[label].cast(kind))
    pq.write_table(table, path)


def expected(
    calls: Iterable[Shown], events: Iterable[Event], times: RowTimes, by_request: bool
) -> list[dict[str, Any]]:
    """The rows by slow loops."""
    window = WINDOW * times.per_second
    kept: list[tuple[Shown, bool]] = []
    for call in sorted(calls, key=lambda c: (c.time(times), c.answered, c.request_id, c.version)):
        same = [
            other
            for other, _ in seen(kept, call, times)
            if call.time(times) - other.time(times) <= window
        ]
        if any(other.version == call.version for other in same):
            continue
        kept.append((call, bool(same)))
    rows: list[dict[str, Any]] = []
    for call, is_again in kept:
        for item, price, score in zip(call.items, call.prices, call.scores, strict=True):
            rows.append(
                {
                    "request_id": f"{call.request_id}@{call.version}"
                    if is_again
                    else call.request_id,
                    "user": call.user,
                    "item": item,
                    "price": price,
                    "country": "fi",
                    "click": 0,
                    "bought": 0,
                    "served_at": call.answered,
                    "served_version": call.version,
                    "served_label": None,
                    "served_state": None if call.lag is None else "answered",
                    "served_lag_seconds": call.lag,
                    "served_score_click": np.float32(score),
                    "served_score_buy": None,
                    "tick": call.time(times),
                    "key": (call.request_id if by_request else call.user, item),
                }
            )
    for event in events:
        tick = event.at * times.per_second // 10**6
        key = (event.request_id if by_request else event.user, event.item)
        if None in key:
            continue
        for version in (1, 2) if by_request else (None,):
            earlier = [
                row
                for row in rows
                if row["key"] == key
                and row["tick"] <= tick
                and version in (None, row["served_version"])
            ]
            newest = max((row["tick"] for row in earlier), default=None)
            for row in earlier:
                if row["tick"] == newest and tick <= newest + window:
                    row["click"] = max(row["click"], event.click or 0)
                    row["bought"] = max(row["bought"], event.bought or 0)
    return rows


def seen(
    kept: Sequence[tuple[Shown, bool]], call: Shown, times: RowTimes
) -> list[tuple[Shown, bool]]:
    return [one for one in kept if one[0].request_id == call.request_id]


@dataclass(frozen=True)
class World:
    """A log, outcomes and the folder of their rows."""

    folder: Path
    times: RowTimes
    by_request: bool

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def events(self) -> Path:
        return self.folder / "events"

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    def source(self) -> JoinSource:
        features = self.folder / "features"
        if not features.exists():
            features.mkdir()
            table = pa.table({"item": [1, 2], "price": [0.5, 1.0], "country": ["fi", "se"]})
            fit(SCHEMA, [table]).save(features)
        keys = pa.schema([("user", pa.string())])
        tasks = tuple(task.name for task in SCHEMA.tasks)
        layout = Layout("request_id", self.times, keys, SCHEMA.features, LABELS, tasks)
        by = ("request_id" if self.by_request else "user", "item")
        named = pa.schema([layout.key_schema.field(name) for name in by])
        return JoinSource(
            CallLog(LogFolder.open(self.log), "live", self.times),
            layout,
            OutcomeColumns(named, self.times, "time", LABELS),
            files_of(self.events),
            Periods(WINDOW, self.times.per_second),
            features,
            True,
        )

    def join(self, engine: Engine = LOCAL, target: str = "rows") -> Joined:
        return join(self.source(), self.folder / target, {"window": WINDOW}, engine, lambda _: None)

    def found(self, target: str = "rows") -> list[dict[str, Any]]:
        """The rows that were written, as `expected` has them."""
        rows = []
        for path in sorted((self.folder / target).glob("*.parquet")):
            table = pq.read_table(path)
            at = table["served_at"].cast(pa.int64()).to_pylist()
            ticks = at if self.times.name == "served_at" else table["time"].cast(pa.int64())
            for row, micros, tick in zip(
                table.to_pylist(), at, pa.array(ticks).to_pylist(), strict=True
            ):
                rows.append({**row, "served_at": micros, "tick": tick})
        return rows

    def check(self, calls: Iterable[Shown], events: Iterable[Event], target: str = "rows") -> None:
        """Compares the rows with those of the loops."""
        wanted = expected(calls, events, self.times, self.by_request)
        found = self.found(target)
        names = [name for name in wanted[0] if name not in ("key", "tick")]
        if self.times.name != "served_at":
            names.append("tick")
        for name in names:
            np.testing.assert_array_equal(
                [row[name] for row in found], [row[name] for row in wanted], err_msg=name
            )


def beyond(calls: Sequence[Shown]) -> Event:
    """An outcome of nobody, so late that all windows are over."""
    at = max(call.at for call in calls) + 2 * (3600 + WINDOW) * 10**6
    return Event("nobody", "nobody", 1, at, 1, None)
