"""The tables of `benchmarks/training.py`, from the records of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks.peers.contenders import PEERS
from benchmarks.peers.operations import flops
from benchmarks.peers.settings import TITLES

Record = Mapping[str, Any]
Key = tuple[str, str]  # contender and precision


def by_contender(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """The runs of each that neither failed nor were skipped, in the order of the first round."""
    by_key: dict[Key, list[Record]] = {}
    for record in records:
        runs = by_key.setdefault((record["contender"], record["precision"]), [])
        if not {"error", "skipped"} & record.keys():
            runs.append(record)
    return by_key


def peaks(peak: Mapping[str, float]) -> str:
    """The peak by precision, for people."""
    parts = (
        f"{precision} {value / 1e9:,.0f} GFLOP/s" if value else f"{precision} not known"
        for precision, value in peak.items()
    )
    return f"Peak: {', '.join(parts)}"


def speed(runs: Sequence[Record]) -> float:
    """Rows a second, the median of the rounds; NaN where all failed."""
    return median(run["rows_per_second"] for run in runs) if runs else float("nan")


def speeds(
    model: str, vocabulary: int, records: Sequence[Record], peak: Mapping[str, float]
) -> Table:
    """One model at one vocabulary: speed, ratios to the peers, AUC and memory.

    A peak of 0 is not known, and no share of it either.
    """
    by_key = by_contender(records)
    peers = [name for name in PEERS if by_key.get((name, "float32"))]
    table = _table(f"{TITLES[model]}; {vocabulary:,} rows of tables")
    for column in ("", "", "rows/s", "lowest, highest", *(f": {name}" for name in peers)):
        table.add_column(column, justify="right" if column else "left")
    for column in ("of the peak", "AUC", "process MB", "GPU MB", "weights MB", "slots MB", "wait"):
        table.add_column(column, justify="right")
    for (name, precision), runs in by_key.items():
        if not runs:
            table.add_row(name, _short(precision), _missing(records, name, precision))
            continue
        all_speeds = [run["rows_per_second"] for run in runs]
        best = peak[_short(precision)]
        share = f"{speed(runs) * flops(model) / best:.1%}" if best else ""
        table.add_row(
            name,
            _short(precision),
            f"{speed(runs):,.0f}",
            f"{min(all_speeds):,.0f}, {max(all_speeds):,.0f}",
            *(f"{speed(runs) / speed(by_key[peer, 'float32']):.2f}" for peer in peers),
            share,
            _largest(runs, "auc", "{:.4f}"),
            *(_largest(runs, part, "{:,.0f}") for part in ("peak", "device", "weights", "slots")),
            _largest(runs, "input_wait", "{:.1%}"),
        )
    return table


def vocabularies(model: str, records: Sequence[Record]) -> Table:
    """Each contender's speed by vocabulary, as a share of that at the smallest."""
    sizes = sorted({record["vocabulary"] for record in records})
    parts = {size: by_contender([r for r in records if r["vocabulary"] == size]) for size in sizes}
    table = _table(f"{TITLES[model]}; rows/s as a share of those at {sizes[0]:,} rows of tables")
    for column in ("", "", *(f"{size:,}" for size in sizes)):
        table.add_column(column, justify="right" if column else "left")
    for key in parts[sizes[0]]:
        first, *others = (speed(parts[size].get(key, [])) for size in sizes)
        table.add_row(
            key[0], _short(key[1]), f"{first:,.0f} /s", *(f"{s / first:.2f}" for s in others)
        )
    return table


def requests(records: Sequence[Record]) -> Table:
    """Requests beside the same rows one by one."""
    table = _table("Requests of 25 candidates, histories of 100, beside the same rows one by one")
    for column in ("", "", "rows/s one by one", "in requests", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["model"], record["precision"]), []).append(record)
    for (model, precision), runs in groups.items():
        complete = [run for run in runs if not {"error", "skipped"} & run.keys()]
        if not complete:
            table.add_row(model, _short(precision), "skipped" if "skipped" in runs[0] else "failed")
            continue
        one, many = (median(run[way] for run in complete) for way in ("one by one", "requests"))
        ratio = median(run["requests"] / run["one by one"] for run in complete)
        table.add_row(model, _short(precision), f"{one:,.0f}", f"{many:,.0f}", f"{ratio:.2f}")
    return table


def _table(title: str) -> Table:
    return Table(title=title, box=None, title_justify="left", caption_justify="left")


def _missing(records: Sequence[Record], name: str, precision: str) -> str:
    key = (name, precision)
    skipped = any("skipped" in r for r in records if (r["contender"], r["precision"]) == key)
    return "skipped" if skipped else "failed"


def _short(precision: str) -> str:
    return precision.removeprefix("mixed_")


def _largest(runs: Sequence[Record], part: str, form: str) -> str:
    values = [run[part] for run in runs if run[part] is not None]
    return form.format(max(values)) if values else ""
