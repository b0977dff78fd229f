"""Relevance of fields and events: pictures, table and verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipelines.report.numbers import ABSENT, percent
from pipelines.report.palette import LIGHT
from pipelines.report.plots import BASELINE, FAINT, INK, Picture, Points, picture, short

Kind = Mapping[str, Any]

NAMES = {
    "leave_one_out": "leaving one out",
    "gradient_times_input": "gradient times input",
    "integrated_gradients": "integrated gradients",
    "gradient_sizes": "sizes of gradient times input",
    "chefer": "Chefer's rule",
    "lrp": "layer-wise relevance",
    "attention": "attention weights",
    "random": "random order",
}
STYLES: Mapping[str, dict[str, Any]] = {
    "leave_one_out": {"color": INK, "linewidth": 2.2, "marker": "o"},
    "gradient_times_input": {"color": LIGHT["gradients"], "marker": "s"},
    "integrated_gradients": {"color": LIGHT["gradients"], "linestyle": "--", "marker": "D"},
    "gradient_sizes": {"color": LIGHT["gradients"], "linestyle": "--", "marker": "D"},
    "chefer": {"color": LIGHT["propagation"], "marker": "v"},
    "lrp": {"color": LIGHT["propagation"], "linestyle": "--", "marker": "P"},
    "attention": {"color": LIGHT["attention"], "marker": "^"},
    "random": {"color": BASELINE, "linestyle": ":", "marker": ""},
}
MOST_FIELDS = 15
HINTS = {
    "Relevance": "The share of each in what the scores come from, by method; leaving one out is "
    "the measure.",
    "Taken away": "What the logit loses when the most relevant are taken away first: a line near "
    "that of leaving one out is faithful, one near random order says nothing.",
}


def pictures(relevance: Mapping[str, Any]) -> dict[str, Picture]:
    """The pictures of a task's relevance, by title."""
    drawn = {}
    for name, kind in relevance["kinds"].items():
        if any(kind["shares"]["leave_one_out"]):
            draw = _events if name.startswith("events/") else _fields
            drawn[f"Relevance of {titled(name)}"] = draw(kind)
            drawn[f"Taken away: {titled(name)}"] = _curves(kind)
    return drawn


def hint(title: str) -> str:
    """The line below a picture."""
    return next(text for name, text in HINTS.items() if title.startswith(name))


def titled(kind: str) -> str:
    """The units of a kind, such as `events of clicks`."""
    history = kind.removeprefix("events/")
    return kind if history == kind else f"events of {history}"


def verdict(name: str, kind: Kind) -> str:
    """Which method to believe on these units, and how attention weights alone do."""
    result, methods = kind["verdict"], kind["methods"]
    sizes = {
        method: result_of_method["size"]
        for method, result_of_method in methods.items()
        if result_of_method["size"]
    }
    units = titled(name)
    if not sizes:
        return f"No order of the {units} can be tested: leaving one out changes too few scores."
    others = {method: size[0] for method, size in sizes.items() if method != "attention"}
    best = max(others, key=others.__getitem__)
    believe = result["believe"]
    if believe is None:
        return (
            f"Believe no order of the {units}: the best, by {NAMES[best]}, agrees with leaving "
            f"one out by {_agreement(sizes[best])}. Leave single ones out instead."
        )
    text = (
        f"For the {units} believe {NAMES[believe]}: the order agrees with leaving one out by "
        f"{_agreement(sizes[believe])}."
    )
    if believe == "attention":
        return f"{text} The next, {NAMES[best]}, agrees less: {_agreement(sizes[best])}."
    if result["attention"] == "worse":
        ahead = _agreement(result["difference"])
        return f"{text} Attention weights alone agree less, by {ahead}."
    if result["attention"] == "as well":
        return f"{text} Attention weights alone do as well: {_agreement(sizes['attention'])}."
    return text


def agreement(ends: list[float] | None) -> str:
    """A number with the ends of its interval."""
    return ABSENT if ends is None else _agreement(ends)


def _agreement(ends: list[float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*ends)


@picture
def _fields(figure: Figure, kind: Kind) -> Points:
    """The share of each field, by method."""
    units, shares = kind["units"], kind["shares"]
    order = np.argsort(shares["leave_one_out"])[::-1]
    most = order[:MOST_FIELDS][::-1]
    axes = figure.add_subplot()
    place = np.arange(len(most))
    axes.hlines(place, 0, max(map(max, shares.values())), color=FAINT, linewidth=0.4)
    for method, values in reversed(shares.items()):
        style = STYLES[method]
        size = 46 if method == "leave_one_out" else 24
        hollow = style.get("linestyle") == "--"
        axes.scatter(
            np.array(values)[most],
            place,
            size,
            marker=style["marker"],
            facecolors="none" if hollow else style["color"],
            edgecolors=style["color"],
            linewidths=1.2 if hollow else 0,
            label=NAMES[method],
            zorder=3,
        )
    axes.set_yticks(place, [short(units[index]) for index in most])
    axes.set(ylim=(-0.7, len(most) - 0.3), xlabel="share of the relevance")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: percent(value))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    handles, labels = axes.get_legend_handles_labels()
    _legend(figure, handles[::-1], labels[::-1])
    return _table("", kind, order)


@picture
def _events(figure: Figure, kind: Kind) -> Points:
    """The share of each event by its age, by method."""
    axes = figure.add_subplot()
    count = np.flatnonzero(kind["count"]).max() + 1
    x = np.arange(1, count + 1)
    for method, values in kind["shares"].items():
        axes.plot(x, values[:count], markersize=3.5, label=NAMES[method], **STYLES[method])
    axes.set(xlabel="events, the latest is 1", ylabel="share of the relevance", ylim=(0, None))
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _legend(figure, *axes.get_legend_handles_labels())
    return _table("event", kind, x - 1)


@picture
def _curves(figure: Figure, kind: Kind) -> Points:
    """The loss of the logit as units are taken away."""
    axes = figure.add_subplot()
    x = [0.0, *kind["removed"]]
    for method, values in kind["curves"].items():
        axes.plot(x, [0, *values], markersize=3.5, label=NAMES[method], **STYLES[method])
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set(xlabel="share taken away", ylabel="logit lost", xlim=(0, None))
    axes.xaxis.set_major_formatter(lambda value, _: percent(value))
    _legend(figure, *axes.get_legend_handles_labels())
    rows = zip(kind["removed"], *kind["curves"].values(), strict=True)
    head = ["taken away", *(NAMES[method] for method in kind["curves"])]
    return Points(
        head, [[percent(share), *(f"{v:.4f}" for v in values)] for share, *values in rows]
    )


def _legend(figure: Figure, handles: list[Any], labels: list[str]) -> None:
    """The methods, in two columns above the picture."""
    figure.legend(handles, labels, loc="outside upper left", ncols=2, fontsize=8.5)


def _table(unit: str, kind: Kind, order: Any) -> Points:
    """Mean relevance of each unit with its sign, and the rows that have it."""
    means = kind["means"]
    rows = [
        [
            kind["units"][index],
            f"{kind['count'][index]:,}",
            *(f"{values[index]:.4f}" for values in means.values()),
            *(percent(values[index]) for values in kind["shares"].values()),
        ]
        for index in order
    ]
    names = [NAMES[method] for method in means]
    return Points(
        [unit, "rows", *(f"{n}, mean" for n in names), *(f"{n}, share" for n in names)], rows
    )
