"""Random events with ties, nulls and requests, and the aggregates' definition as a slow loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.ingest.source import ALL, Source, SourceFile
from serving.state.definitions.aggregate_options import AggregateOptions

OF = {"rate": "click", "sum": "price", "mean": "price", "distinct": "item"}
KEYS: tuple[str | tuple[str, ...], ...] = ("user", ("item", "user"))
RANGES: tuple[dict[str, Any], ...] = (
    {},
    {"window": 5.0},
    {"last": 3},
    {"where": "click"},
    {"delay": 4.0},
    {"window": 7.0, "delay": 2.0},
    {"last": 2, "delay": 3.0},
    {"window": 9.0, "resolution": 4.0},
    {"window": 8.0, "resolution": 3.0, "delay": 2.0},
    {"forget_after": 6.0},
    {"forget_after": 5.0, "delay": 2.0},
    {"forget_after": 7.0, "last": 4},
)


def definitions() -> list[AggregateOptions]:
    """Every kind with every key and range that it takes."""
    found = []
    for kind in ("count", "rate", "sum", "mean", "since_last", "distinct"):
        for by in KEYS:
            for among in RANGES:
                if "last" in among and kind not in OF:
                    continue
                if "resolution" in among and kind == "since_last":
                    continue
                name = f"a{len(found)}"
                more = {**among, "of": OF.get(kind)}
                found.append(AggregateOptions(name=name, kind=kind, by=by, time="time", **more))
    for prior in ({"prior_strength": 0.0}, {"prior_rate": 0.3, "prior_strength": 1.7}):
        more = {"by": "item", "time": "time", "of": "click", "name": f"a{len(found)}"}
        found.append(AggregateOptions(kind="rate", **more, **prior))
    return found


def table(rows: int = 149, seed: int = 0, times: int = 31) -> pa.Table:
    """Requests of one to four rows of their own times, in no order."""
    rng = np.random.default_rng(seed)
    request = np.repeat(np.arange(rows), rng.integers(1, 5, rows))[:rows]

    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.1)

    return pa.table(
        {
            "request": request,
            "user": some(rng.integers(5, size=rows).astype(str)),
            "item": some(rng.integers(7, size=rows)),
            "time": rng.integers(times, size=rows),
            "price": some(rng.normal(size=rows) * 10.0 ** rng.integers(-3, 4, rows)),
            "click": some(rng.integers(2, size=rows)),
        }
    )


def source(*tables: pa.Table, request: str | None = "request") -> Source:
    files = [SourceFile.of_table(f"file {i}", each) for i, each in enumerate(tables)]
    return Source({ALL: files}, request=request)


def slow(
    rows: Sequence[Mapping[str, Any]], aggregate: AggregateOptions, request: str | None
) -> list[float | None]:
    """What the definition says, row by row, as float32."""
    found = []
    for row in rows:
        same = [row] if request is None else [r for r in rows if r[request] == row[request]]
        now = min(r["time"] for r in same)
        moment = now - (aggregate.delay or 0)
        events = [(r["time"], i, r) for i, r in enumerate(rows) if _counts(r, aggregate, moment)]
        everyone = [r for *_, r in events]
        events = [(t, i, r) for t, i, r in events if _same_key(r, row, aggregate)]
        start = -math.inf
        if aggregate.window is not None:
            step = aggregate.resolution or 1
            start = math.floor((moment - aggregate.window) / step) * step
        if aggregate.forget_after is not None:
            start = _begin(
                [r["time"] for r in rows if _same_key(r, row, aggregate)],
                now,
                aggregate.forget_after,
            )
        events = [event for event in events if event[0] >= start]
        past = [r for *_, r in sorted(events, key=lambda event: event[:2])]
        if aggregate.last is not None:
            past = past[-aggregate.last :]
        value = None
        if all(row[k] is not None for k in aggregate.keys):
            value = _value(past, everyone, aggregate, now)
        found.append(None if value is None else float(np.float32(value)))
    return found


def _same_key(row: Mapping[str, Any], other: Mapping[str, Any], aggregate: Any) -> bool:
    return all(row[key] == other[key] for key in aggregate.keys)


def _begin(times: Sequence[int], now: int, gap: float) -> float:
    """The time from which a key has a past: no row for `gap` comes before it."""
    begin = math.inf
    for time in sorted(time for time in times if time < now)[::-1]:
        if min(begin, now) - time >= gap:
            break
        begin = time
    return begin


def _counts(row: Mapping[str, Any], aggregate: AggregateOptions, moment: int) -> bool:
    is_event = aggregate.where is None or row[aggregate.where] == 1
    has_value = aggregate.of is None or row[aggregate.of] is not None
    return row["time"] < moment and is_event and has_value


def _value(
    past: Sequence[Mapping[str, Any]],
    everyone: Sequence[Mapping[str, Any]],
    aggregate: AggregateOptions,
    moment: int,
) -> float | None:
    values = [r[aggregate.of] for r in past] if aggregate.of else []
    if aggregate.kind == "count":
        return len(past)
    if aggregate.kind == "since_last":
        return moment - past[-1]["time"] if past else None
    if aggregate.kind == "distinct":
        return len(set(values))
    if aggregate.kind == "rate":
        strength, share = aggregate.prior_strength, aggregate.prior_rate
        if strength and share is None:
            if not everyone:
                return None
            share = sum(r[aggregate.of] for r in everyone) / len(everyone)
        if len(past) + strength == 0:
            return None
        return (sum(values) + strength * (share or 0.0)) / (len(past) + strength)
    total = float(sum(Fraction(round(Fraction(value) * 2**32), 2**32) for value in values))
    if aggregate.kind == "sum":
        return total
    return total / len(past) if past else None
