"""The plots of drift and skew, in the style of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipelines.report.numbers import decimal, percent
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
    short,
)

REFERENCE, SERVED = BASELINE, MODEL
Sides = tuple[str, str]
LIMITS = {"watch": 0.1, "shifted": 0.25}
_MOST_BINS = 14
_LINES = (MODEL, LABEL_1, CEILING, LABEL_0, BASELINE)


def shown_bins(
    bins: Sequence[Mapping[str, Any]], sides: Sides = ("reference", "served")
) -> list[Mapping[str, Any]]:
    """The bins with the largest shares on either side, in order."""
    largest = sorted(bins, key=lambda part: -max(part[side] for side in sides))[:_MOST_BINS]
    return [part for part in bins if part in largest]


@picture
def shares(
    figure: Figure,
    bins: Sequence[Mapping[str, Any]],
    sides: Sides = ("reference", "served"),
) -> Points:
    """Share of each bin on both sides, such as the reference and the log, as pairs of bars."""
    largest = shown_bins(bins, sides)
    places = np.arange(len(largest))
    axes = figure.add_subplot()
    for offset, side, color in zip((-0.2, 0.2), sides, (REFERENCE, SERVED), strict=True):
        axes.barh(places + offset, [part[side] for part in largest], 0.38, color=color, label=side)
    axes.set_yticks(places, [short(part["name"]) for part in largest])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(lambda value, _: percent(value))
    axes.set_xlabel("share" if len(largest) == len(bins) else f"share, {len(largest)} largest bins")
    figure.legend(loc="outside upper left", ncols=2)
    return Points(
        ["bin", *sides],
        [[part["name"], *(percent(part[side]) for side in sides)] for part in bins],
    )


@picture
def drift(figure: Figure, periods: Sequence[Mapping[str, Any]]) -> Points:
    """Stability index over time of the features with the largest shifts."""
    axes = figure.add_subplot()
    x = np.arange(len(periods))
    names = sorted(
        periods[0]["features"], key=lambda n: -max(p["features"][n]["psi"] for p in periods)
    )
    most = names[: len(_LINES)]
    for name, color in zip(most, _LINES, strict=False):
        values = [part["features"][name]["psi"] for part in periods]
        axes.plot(x, values, "o-", color=color, markersize=3, label=short(name))
    for limit in LIMITS.values():
        axes.axhline(limit, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_ylim(bottom=0)
    _name_periods(axes, periods)
    axes.set_ylabel("stability index")
    figure.legend(loc="outside upper left", ncols=3)
    rows = [
        [part["begin"], *(decimal(part["features"][name]["psi"], 3) for name in most)]
        for part in periods
    ]
    return Points(["from", *map(short, most)], rows)


@picture
def mean_scores(figure: Figure, task: str, periods: Sequence[Mapping[str, Any]]) -> Points:
    """The mean score over time."""
    axes = figure.add_subplot()
    values = np.array([part["tasks"][task]["mean"] for part in periods], dtype=float)
    axes.plot(np.arange(len(periods)), values, "o-", color=SERVED, markersize=3.5, clip_on=False)
    axes.margins(y=0.3)
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    _name_periods(axes, periods)
    axes.set_ylabel("mean score")
    means = [[part["begin"], percent(part["tasks"][task]["mean"])] for part in periods]
    return Points(["from", "mean score"], means)


def _name_periods(axes: Axes, periods: Sequence[Mapping[str, Any]]) -> None:
    every = max(1, -(-len(periods) // 4))
    numbered = range(0, len(periods), every)
    names = [periods[i]["begin"].replace(" ", "\n") for i in numbered]
    axes.set_xticks(list(numbered), names, color=SOFT)
    axes.set_xlim(-0.5, len(periods) - 0.5)
