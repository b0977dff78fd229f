"""The tables of `benchmarks/serving.py`, from what the callers saw."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.servers.contenders import PLAIN
from benchmarks.servers.load import Load

IN_PROCESS, RUNTIME = "in process", "our runtime"
_QUANTILES = {"p50": 50, "p99": 99, "p99.9": 99.9}


class Cell(NamedTuple):
    """The key of one measurement."""

    model: str
    candidates: int
    callers: int
    contender: str


Loads = Mapping[Cell, Load]


def speed(load: Load) -> float:
    """Requests a second, the median of the turns."""
    return median(load.rates)


def to_plain(loads: Loads, cell: Cell) -> float:
    """Requests a second beside those of the plain server, in the median of the turns."""
    other = loads.get(cell._replace(contender=PLAIN))
    if other is None:
        return float("nan")
    pairs = zip(loads[cell].rates, other.rates, strict=True)
    return median(rate / plain for rate, plain in pairs)


def to_alone(loads: Loads, cell: Cell, name: str = IN_PROCESS) -> float:
    """The median time of a request beside that of the model alone."""
    alone = loads.get(cell._replace(contender=name))
    if alone is None:
        return float("nan")
    return float(np.median(loads[cell].latencies) / np.median(alone.latencies))


def measured(model: str, loads: Loads) -> Table:
    """All numbers of a model."""
    table = _table(model)
    for name in ("candidates", "callers", "", "requests/s", "candidates/s", ": plain"):
        table.add_column(name, justify="right" if name else "left")
    for name in (*(f"{name} ms" for name in _QUANTILES), ": in process", "requests"):
        table.add_column(name, justify="right")
    for name in ("processor ms a request", "the callers' own"):
        table.add_column(name, justify="right")
    last = None
    for cell, load in loads.items():
        if cell.model != model:
            continue
        if last not in (None, cell[:3]):
            table.add_row()
        last = cell[:3]
        times = [f"{1e3 * np.percentile(load.latencies, q):.2f}" for q in _QUANTILES.values()]
        table.add_row(
            f"{cell.candidates:,}",
            str(cell.callers),
            cell.contender,
            f"{speed(load):,.1f}",
            f"{speed(load) * cell.candidates:,.0f}",
            _ratio(to_plain(loads, cell)),
            *times,
            _ratio(to_alone(loads, cell)),
            f"{len(load.latencies):,}",
            f"{1e3 * load.processor / len(load.latencies):.2f}",
            f"{1e3 * load.client / len(load.latencies):.2f}" if load.client else "",
        )
    return table


def ratios(loads: Loads) -> Table:
    """How often the plain server's requests a second, and how long beside the model alone."""
    callers = sorted({cell.callers for cell in loads})
    table = _table("Requests/s as a multiple of the plain server's, by callers; p50 beside (a)")
    alone = (IN_PROCESS, RUNTIME)
    for name in ("", "candidates", "", *map(str, callers), *(f"p50: {name}" for name in alone)):
        table.add_column(name, justify="right" if name else "left")
    for cell in loads:
        if cell.callers != callers[0] or cell.contender in (PLAIN, *alone):
            continue
        cells = [cell._replace(callers=count) for count in callers]
        table.add_row(
            cell.model,
            f"{cell.candidates:,}",
            cell.contender,
            *(_ratio(to_plain(loads, one)) if one in loads else "" for one in cells),
            *(_ratio(to_alone(loads, cell, name)) for name in alone),
        )
    return table


def _ratio(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.2f}"


def _table(title: str) -> Table:
    return Table(title=title, box=None, title_justify="left")
