"""Random events with ties, nulls and requests, and the aggregates' definition as a slow loop."""

from __future__ import annotations

import functools
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
    ordered = sorted(rows, key=lambda row: row["time"])  # those of one time as they are
    events = [row for row in ordered if _is_event(row, aggregate)]
    events_of, rows_of = _by_key(events, aggregate), _by_key(ordered, aggregate)
    earliest = _earliest(rows, request)
    found = []
    for number, row in enumerate(rows):
        now, key = earliest[number], _key(row, aggregate)
        moment = now - (aggregate.delay or 0)
        start = -math.inf
        if aggregate.window is not None:
            step = aggregate.resolution or 1
            start = math.floor((moment - aggregate.window) / step) * step
        if aggregate.forget_after is not None:
            start = _begin([r["time"] for r in rows_of[key]], now, aggregate.forget_after)
        past = [r for r in events_of.get(key, ()) if start <= r["time"] < moment]
        if aggregate.last is not None:
            past = past[-aggregate.last :]
        value = None
        if None not in key:
            everyone = [r for r in events if r["time"] < moment] if aggregate.kind == "rate" else ()
            value = _value(past, everyone, aggregate, now)
        found.append(None if value is None else float(np.float32(value)))
    return found


def _key(row: Mapping[str, Any], aggregate: AggregateOptions) -> tuple[Any, ...]:
    return tuple(row[name] for name in aggregate.keys)


def _by_key(
    rows: Sequence[Mapping[str, Any]], aggregate: AggregateOptions
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(_key(row, aggregate), []).append(row)
    return by_key


def _earliest(rows: Sequence[Mapping[str, Any]], request: str | None) -> list[int]:
    """For each row the earliest time of its request; without requests its own."""
    if request is None:
        return [row["time"] for row in rows]
    times: dict[Any, int] = {}
    for row in rows:
        times[row[request]] = min(row["time"], times.get(row[request], row["time"]))
    return [times[row[request]] for row in rows]


def _begin(times: Sequence[int], now: int, gap: float) -> float:
    """The time from which a key has a past: no row for `gap` comes before it."""
    begin = math.inf
    for time in sorted(time for time in times if time < now)[::-1]:
        if min(begin, now) - time >= gap:
            break
        begin = time
    return begin


def _is_event(row: Mapping[str, Any], aggregate: AggregateOptions) -> bool:
    has_label = aggregate.where is None or row[aggregate.where] == 1
    return has_label and (aggregate.of is None or row[aggregate.of] is not None)


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
    total = float(Fraction(sum(map(_in_units, values)), 2**32))
    if aggregate.kind == "sum":
        return total
    return total / len(past) if past else None


@functools.cache
def _in_units(value: float) -> int:
    """A number in units of 2^-32."""
    return round(Fraction(value) * 2**32)
