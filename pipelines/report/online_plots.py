"""The plots of the online report: numbers over time by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipelines.report.numbers import ABSENT, decimal, percent
from pipelines.report.plots import (
    BASELINE,
    CEILING,
    FAINT,
    LABEL_0,
    LABEL_1,
    MODEL,
    SOFT,
    Points,
    picture,
)

Part = Mapping[str, Any]
_COLORS = (MODEL, LABEL_1, CEILING, LABEL_0, BASELINE)
MOST_VERSIONS = len(_COLORS)  # newer ones are shown


def version_name(version: Part) -> str:
    """A version with its label: `8 canary`."""
    return f"{version['version']} {version['label'] or ''}".rstrip()


@picture
def metric_over_time(
    figure: Figure, versions: Sequence[Part], task: str, metric: str, perfect: float | None
) -> Points:
    """A metric of a task by period and version, with 95 % intervals."""

    def values(part: Part) -> tuple[float | None, Sequence[float] | None]:
        of_task = part["tasks"][task]
        return of_task[metric], of_task["intervals"][metric]

    axes = figure.add_subplot()
    if perfect is not None:
        axes.axhline(perfect, color=FAINT, linewidth=0.8, zorder=0)
    return _over_time(figure, axes, versions, values, decimal)


@picture
def share_over_time(figure: Figure, versions: Sequence[Part], feature: str) -> Points:
    """The share of missing values of a feature by period and version."""
    axes = figure.add_subplot()
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    return _over_time(
        figure, axes, versions, lambda part: (part["missing"][feature], None), percent
    )


@picture
def lag_over_time(figure: Figure, versions: Sequence[Part]) -> Points:
    """The lag of the state within which 99 % of the answers are, by period and version."""
    axes = figure.add_subplot()
    axes.set_ylabel("seconds, 99 % of the answers")
    return _over_time(
        figure,
        axes,
        versions,
        lambda part: (part["store"]["lag_99"], None),
        lambda value: decimal(value, 1),
    )


@picture
def degraded_over_time(figure: Figure, versions: Sequence[Part]) -> Points:
    """The share of degraded answers by period and version."""
    axes = figure.add_subplot()
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    return _over_time(
        figure, axes, versions, lambda part: (part["store"]["degraded"], None), percent
    )


def _over_time(
    figure: Figure,
    axes: Axes,
    versions: Sequence[Part],
    values: Callable[[Part], tuple[float | None, Sequence[float] | None]],
    text: Callable[[float | None], str],
) -> Points:
    """Draws a line for each version; returns its numbers, a row for each period."""
    begins = sorted({part["begin"] for version in versions for part in version["periods"]})
    cells: dict[tuple[str, int], str] = {}
    for place, (version, color) in enumerate(zip(versions, _COLORS, strict=False)):
        x, y, low, high = [], [], [], []
        for part in version["periods"]:
            value, ends = values(part)
            cell = text(value) + ("" if ends is None else f" ({text(ends[0])}..{text(ends[1])})")
            cells[part["begin"], place] = cell
            if value is not None:
                x.append(begins.index(part["begin"]))
                y.append(value)
                low.append(value if ends is None else ends[0])
                high.append(value if ends is None else ends[1])
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
        axes.plot(x, y, "o-", color=color, markersize=3, label=version_name(version))
    _name_periods(axes, begins)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    figure.legend(loc="outside upper left", ncols=2)
    names = [version_name(version) for version in versions]
    places = range(len(names))
    rows = [[begin, *(cells.get((begin, place), ABSENT) for place in places)] for begin in begins]
    return Points(["from", *names], rows)


def _name_periods(axes: Axes, begins: Sequence[str]) -> None:
    every = max(1, -(-len(begins) // 4))
    places = range(0, len(begins), every)
    axes.set_xticks(
        list(places), [begins[place].replace(" ", "\n") for place in places], color=SOFT
    )
    axes.set_xlim(-0.5, len(begins) - 0.5)
