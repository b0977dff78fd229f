"""The pictures of the attention's audit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from pipelines.report.numbers import decimal, percent
from pipelines.report.plots import (
    BASELINE,
    CEILING,
    FAINT,
    LABEL_0,
    LABEL_1,
    MODEL,
    MOST_FEATURES,
    Picture,
    Points,
    picture,
    short,
    with_intervals,
)

MOST_FIELDS = 16  # of a map
COLORS = (MODEL, LABEL_1, LABEL_0, CEILING, BASELINE)
Found = Mapping[str, Any]


def attention_pictures(audit: Found) -> dict[str, Picture]:
    """The pictures of an evaluation's `attention`, by title."""
    pictures: dict[str, Picture] = {}
    for task in audit["pairs"][0]["strength"] if audit["pairs"] else ():
        pictures[f"Interactions, {task}"] = _pairs(audit["pairs"], task)
    for place in audit["places"]:
        if "map" in place:
            for head, shares in enumerate(place["map"]):
                title = f"Attention of fields, {place['place']}"
                title += f", head {head + 1}" if len(place["map"]) > 1 else ""
                axes = ("field", "field") if place.get("of_pairs") else ("attending", "attended")
                pictures[title] = _map(place["fields"], np.array(shares, float), axes)
        if place.get("events"):
            pictures[f"Events, {place['place']}"] = _events(place["events"])
    if audit["experts"]:
        pictures["Experts"] = _experts(audit["experts"]["tasks"])
    return pictures


@picture
def _pairs(figure: Figure, pairs: Sequence[Found], task: str) -> Points:
    """The strongest interactions of a task, in logits."""
    ordered = sorted(pairs, key=lambda pair: -pair["strength"][task][0])
    strongest = ordered[:MOST_FEATURES][::-1]
    value, low, high = _deviations(strongest, task).T
    place = np.arange(len(strongest))
    axes = figure.add_subplot()
    axes.hlines(place, low, high, color=MODEL, linewidth=1.2, alpha=0.55)
    axes.scatter(value, place, 20, color=MODEL, linewidths=0, zorder=3)
    axes.set_yticks(place, [" and ".join(short(n) for n in pair["features"]) for pair in strongest])
    axes.set(ylim=(-0.7, len(strongest) - 0.3), xlabel="deviation of the interaction, in logits")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    rows = [
        [*pair["features"], *("" if np.isnan(end) else f"{end:.4f}" for end in ends)]
        for pair, ends in zip(ordered, _deviations(ordered, task), strict=True)
    ]
    return Points(["feature", "feature", "deviation", "from", "to"], rows)


def _deviations(pairs: Sequence[Found], task: str) -> np.ndarray:
    """The strength of each pair and the ends of its interval, (pairs, 3); NaN is unknown."""
    variances = np.array([pair["strength"][task] for pair in pairs], float)
    return np.sqrt(np.maximum(variances, 0))


@picture
def _map(
    figure: Figure, fields: Sequence[str], shares: np.ndarray, names_of: tuple[str, str]
) -> Points:
    """The mean attention of each field to each, or of pairs, in units of equal shares."""
    most = np.sort(np.argsort(-np.nan_to_num(shares).sum(axis=0), kind="stable")[:MOST_FIELDS])
    lifts = shares[np.ix_(most, most)] * len(fields)
    axes = figure.add_subplot()
    _cells(axes, np.nan_to_num(lifts))
    names = [short(fields[index]) for index in most]
    axes.set_xticks(np.arange(len(most)) + 0.5, names, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(np.arange(len(most)) + 0.5, names, fontsize=8)
    axes.set(xlim=(0, len(most)), ylim=(len(most), 0), xlabel=names_of[1], ylabel=names_of[0])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    rows = [
        [fields[i], fields[j], "" if np.isnan(shares[i, j]) else percent(shares[i, j])]
        for i, j in itertools.product(range(len(fields)), repeat=2)
    ]
    return Points([*names_of, "share"], rows)


def _cells(axes: Axes, values: np.ndarray) -> None:
    """Squares whose opacity is their value: they take the colours of the page."""
    scale = max(values.max(), 1e-9)
    places = list(np.ndindex(*values.shape))
    patches = [Rectangle((column, row), 0.96, 0.96) for row, column in places]
    opacity = [max(values[place] / scale, 0.02) for place in places]
    colors = [(*to_rgb(MODEL), share) for share in opacity]
    axes.add_collection(PatchCollection(patches, facecolors=colors, edgecolors="none"))


@picture
def _events(figure: Figure, events: Sequence[Found]) -> Points:
    """Attention by age and likeness of the events, in units of their number."""
    from_below = events[::-1]
    ends = [*np.array([event["lift"] for event in from_below], float).T]
    axes = figure.add_subplot()
    with_intervals(axes, [event["name"] for event in from_below], ends, 1)
    axes.set_xlabel("attention, 1 is that of an average event")
    axes.set_xlim(left=0)
    rows = [
        [
            event["name"],
            percent(event["events"]),
            percent(event["weight"][0]),
            *(decimal(end, 2) for end in event["lift"]),
        ]
        for event in events
    ]
    return Points(["events", "of the events", "of the attention", "ratio", "from", "to"], rows)


@picture
def _experts(figure: Figure, tasks: Mapping[str, Found]) -> Points:
    """The mean share of each expert, by task."""
    axes = figure.add_subplot()
    count = len(next(iter(tasks.values()))["shares"])
    x = np.arange(1, count + 1)
    for index, (task, gates) in enumerate(tasks.items()):
        value, low, high = np.array(gates["shares"], float).T
        at = x + 0.12 * (index - (len(tasks) - 1) / 2)
        color = COLORS[index % len(COLORS)]
        axes.vlines(at, low, high, color=color, linewidth=1.2, alpha=0.55)
        axes.scatter(at, value, 24, color=color, linewidths=0, label=short(task), zorder=3)
    axes.axhline(1 / count, color=FAINT, linewidth=0.8)
    axes.set(xlabel="expert", ylabel="mean share", ylim=(0, None), xlim=(0.5, count + 0.5))
    axes.set_xticks(x)
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    figure.legend(loc="outside upper left", ncols=3, fontsize=8.5)
    rows = [
        [task, str(expert + 1), *(percent(end) for end in share), percent(gates["first"][expert])]
        for task, gates in tasks.items()
        for expert, share in enumerate(gates["shares"])
    ]
    return Points(["task", "expert", "mean share", "from", "to", "largest in"], rows)
