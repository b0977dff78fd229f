"""The plots of the report, as inline SVG.

One colour means one thing in all of them: the model, the ceiling, a baseline,
rows with label 0, rows with label 1. Text stays text: it takes the page's font.
"""

import functools
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from pipelines.metrics import calibration_curve, roc_curve, smooth_calibration
from pipelines.metrics.intervals import mean_influence
from pipelines.metrics.probability import logit
from pipelines.report.numbers import decimal, percent
from pipelines.report.palette import LIGHT, by_name
from pipelines.report.results import TaskRows

Floats = NDArray[np.float64]
P = ParamSpec("P")

MODEL, CEILING, BASELINE = LIGHT["model"], LIGHT["ceiling"], LIGHT["baseline"]
LABEL_0, LABEL_1 = LIGHT["label-0"], LIGHT["label-1"]
INK, SOFT, FAINT = LIGHT["ink"], LIGHT["soft"], LIGHT["faint"]
BASELINE_DASHES: Sequence[Any] = ((0, (1, 1)), (0, (4, 1.5)), (0, (6, 1.5, 1, 1.5)), "solid")
LABEL_LENGTH = 22
MOST_FEATURES = 15
SIZE = (4.6, 3.7)  # inches; about half of the page's width, or all of a phone's
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "recsys-attn",  # the same ids every time
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.labelcolor": "linecolor",
}
ALARMS = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9])
SCORE_TICKS = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999])


class Points(NamedTuple):
    """The numbers of a picture, as a table."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A picture, its numbers, and the figure that it was drawn from."""

    svg: str
    points: Points
    figure: Figure


def picture(draw: Callable[Concatenate[Figure, P], Points]) -> Callable[P, Picture]:
    """Draws a figure in the report's style, as SVG."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Picture:
        with matplotlib.style.context(["default", STYLE]):
            figure = Figure(figsize=SIZE, layout="constrained")
            points = draw(figure, *args, **kwargs)
            return Picture(_svg(figure), points, figure)

    return drawn


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace("xlink:href", "href")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[a-z]\w*_\d+"', "", svg)  # groups; the page holds several pictures
    svg = by_name(svg)
    return re.sub(r'<svg .*?(viewBox="[^"]*").*?>', r"<svg \1>", svg, count=1, flags=re.DOTALL)


@picture
def roc(figure: Figure, rows: TaskRows, metrics: Mapping[str, Any]) -> Points:
    """The ROC curves of the model, of the ceiling and of the baselines."""
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
    curves: list[tuple[float, str, Floats, dict[str, Any]]] = []
    for i, (name, scores) in enumerate(rows.baselines.items()):
        dashes = BASELINE_DASHES[i % len(BASELINE_DASHES)]
        style = {"color": BASELINE, "linestyle": dashes}
        curves.append((metrics["baselines"][name]["auc"], name, scores, style))
    if rows.ceiling is not None and metrics["ceiling"]:
        style = {"color": CEILING, "linestyle": (0, (3, 1.5))}
        curves.append((metrics["ceiling"]["auc"], "ceiling", rows.ceiling, style))
    model = {"color": MODEL, "linewidth": 2.0}
    curves.append((metrics["auc"], "model", rows.scores, model))
    lines, hits_at = [], {}
    for value, name, scores, style in curves:
        alarms, hits = roc_curve(rows.labels, scores)
        (line,) = axes.plot(alarms, hits, clip_on=False, **style)
        lines.append((value, f"{decimal(value)}  {short(name)}", line))
        hits_at[name] = np.interp(ALARMS, alarms, hits)
    lines.sort(key=lambda entry: -entry[0])
    axes.legend(
        [line for _, _, line in lines],
        [label for _, label, _ in lines],
        loc="lower right",
        title="AUC",
        alignment="left",
    )
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    table = np.column_stack([ALARMS, *reversed(hits_at.values())])
    head = ["false positive rate", *(short(name) for name in reversed(hits_at))]
    return Points(head, [[percent(share) for share in row] for row in table])


@picture
def calibration(figure: Figure, rows: TaskRows, clusters: NDArray[np.intp]) -> Points:
    """Observed against predicted rate per quantile bin of the scores, and as a smooth curve.

    The 95 % intervals of the bins are for rows that depend on each other within a cluster.
    """
    predicted, observed, counts = calibration_curve(rows.labels, rows.scores)
    low, high = _wilson(observed, bin_sizes(rows, clusters, counts))
    smooth = smooth_calibration(rows.labels, rows.scores)
    axes = figure.add_subplot()
    end = max(predicted.max(), high.max(), 1e-6) * 1.06
    start = 0.0
    locator: Callable[[], Locator] = functools.partial(MaxNLocator, 6)
    if predicted.min() > 0 and observed.min() > 0 and predicted.max() > 20 * predicted.min():
        start = min(predicted.min(), low.min()) / 1.3  # else the low bins share one spot
        axes.set(xscale="log", yscale="log")
        locator = functools.partial(LogLocator, subs=(1, 2, 5))
    axes.set(xlim=(start, end), ylim=(start, end))
    axes.plot([start, end], [start, end], color=FAINT, linewidth=0.8)
    axes.vlines(predicted, low, high, color=MODEL, linewidth=1.2, alpha=0.55)
    axes.plot(smooth.predicted, smooth.smooth, color=MODEL, linewidth=1.2)
    sizes = 32 * counts / counts.max()
    axes.scatter(predicted, observed, sizes, color=MODEL, linewidths=0, clip_on=False, zorder=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(locator())
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: percent(value))
    axes.text(0.03, 0.97, "predicted too low", transform=axes.transAxes, va="top", color=SOFT)
    axes.text(0.97, 0.03, "predicted too high", transform=axes.transAxes, ha="right", color=SOFT)
    axes.set_xlabel(f"predicted rate, {_bins(counts)}")
    axes.set_ylabel("observed rate")
    curve = np.interp(predicted, smooth.predicted, smooth.smooth)
    shares = zip(predicted, observed, low, high, curve, strict=True)
    return Points(
        ["predicted", "observed", "from", "to", "smooth", "rows"],
        [
            [*(percent(share) for share in row), f"{count:,}"]
            for row, count in zip(shares, counts, strict=True)
        ],
    )


@picture
def distribution(figure: Figure, rows: TaskRows) -> Points:
    """Distribution of the scores by label, on an axis of log-odds."""
    axes = figure.add_subplot()
    logits = logit(np.clip(rows.scores, 1e-6, 1 - 1e-6))
    start, end = np.quantile(logits, [1e-4, 1 - 1e-4]) + np.array([-0.3, 0.3])
    edges, top = np.linspace(start, end, 50), 0.0
    shares: dict[str, Floats] = {}
    for label, color, side in ((0, LABEL_0, "left"), (1, LABEL_1, "right")):
        mine = np.clip(logits[rows.labels == label], start, end)
        name = f"label {label}\n{mine.size:,} rows"
        place = 0.02 if side == "left" else 0.98
        axes.text(place, 0.98, name, transform=axes.transAxes, color=color, ha=side, va="top")
        if mine.size:
            heights = np.histogram(mine, edges)[0] / mine.size
            shares[f"label {label}"] = heights
            top = max(top, heights.max())
            axes.stairs(heights, edges, fill=True, color=color, alpha=0.18)
            axes.stairs(heights, edges, color=color, linewidth=1.4)
    ticks = _score_ticks(start, end)
    axes.set_xticks(logit(ticks), [percent(tick) for tick in ticks])
    axes.set(xlim=(start, end), xlabel="score", ylabel="share of the label's rows")
    axes.set_ylim(0, 1.18 * top)  # room for the names of the labels
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    low, high = (1 / (1 + np.exp(-ends)) for ends in (edges[:-1], edges[1:]))
    table = np.column_stack([low, high, *shares.values()])
    return Points(["from", "to", *shares], [[percent(share) for share in row] for row in table])


@picture
def training(
    figure: Figure,
    task: str,
    epochs: Sequence[Mapping[str, Any]],
    kept: Mapping[str, Any] | None = None,
) -> Points:
    """AUC and logloss on the validation rows after each epoch, one above the other.

    NDCG takes the place of logloss where the scores are no probabilities. The table beside it has
    the task's learned weight too.
    """
    x = np.array([epoch["epoch"] for epoch in epochs])
    last = f"val_{task}_"
    ranked = [name.removeprefix(last) for name in epochs[0] if name.startswith(f"{last}ndcg@")]
    curves = {
        metric: np.array([epoch.get(f"{last}{metric}") for epoch in epochs], dtype=float)
        for metric in ("auc", "logloss", *ranked)
    }
    curves = {metric: values for metric, values in curves.items() if np.isfinite(values).any()}
    if "logloss" in curves:
        curves = {metric: curves[metric] for metric in curves if metric in ("auc", "logloss")}
    panels = figure.subplots(len(curves), sharex=True, squeeze=False)[:, 0]
    for axes, (metric, values) in zip(panels, curves.items(), strict=True):
        falls = metric == "logloss"
        axes.set_ylabel(f"validation\n{metric if falls else metric.upper()}")
        if kept is not None:
            axes.axvline(kept["epoch"], color=FAINT, linewidth=0.8)
        axes.plot(x, values, "o-", color=MODEL, markersize=3.5, clip_on=False)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.margins(y=0.3)
        at = np.nanargmin(values) if falls else np.nanargmax(values)
        _mark_best(axes, x[at], values[at], above=not falls)
    panels[-1].set(xlabel="epoch", xlim=(x.min() - 0.5, x.max() + 0.5))
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    measured = [
        [decimal(None if np.isnan(value) else value) for value in row]
        for row in zip(*curves.values(), strict=True)
    ]
    head = ["epoch", *(name if name == "logloss" else name.upper() for name in curves)]
    weights = [epoch[f"weight_{task}"] for epoch in epochs if f"weight_{task}" in epoch]
    if len(weights) == len(epochs):  # learned
        head.append("weight of the task")
        measured = [[*row, decimal(w)] for row, w in zip(measured, weights, strict=True)]
    return Points(head, [[str(epoch), *row] for epoch, row in zip(x, measured, strict=True)])


@picture
def importance(figure: Figure, entries: Sequence[Mapping[str, Any]]) -> Points:
    """AUC that is lost with a feature's values of other rows, with 95 % intervals."""
    most = [entry for entry in entries if entry["auc"]][:MOST_FEATURES][::-1]
    lost, low, high = np.array([entry["auc"] for entry in most], float).T
    axes = figure.add_subplot()
    with_intervals(axes, [entry["feature"] for entry in most], (lost, low, high), 0)
    axes.set_xlabel("AUC lost without it")
    rows = [
        [entry["feature"], *(decimal(end) for end in entry["auc"] or [None] * 3)]
        for entry in entries
    ]
    return Points(["feature", "AUC lost", "from", "to"], rows)


def with_intervals(
    axes: Axes, names: Sequence[str], ends: Sequence[Floats], neutral: float
) -> None:
    """A line for each name: a number and its interval, grey where it holds the neutral number."""
    value, low, high = ends
    place = np.arange(len(names))
    axes.axvline(neutral, color=FAINT, linewidth=0.8)
    clear = (low > neutral) | (high < neutral)
    for some, color in ((clear, MODEL), (~clear, BASELINE)):
        axes.hlines(place[some], low[some], high[some], color=color, linewidth=1.2, alpha=0.55)
        axes.scatter(value[some], place[some], 20, color=color, linewidths=0, zorder=3)
    axes.set_yticks(place, [short(name) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _mark_best(axes: Axes, x: float, value: float, above: bool) -> None:
    axes.plot(x, value, "o", markersize=8, color=MODEL, fillstyle="none", clip_on=False)
    offset, anchor = ((0, 8), "bottom") if above else ((0, -8), "top")
    axes.annotate(
        decimal(value),
        (x, value),
        offset,
        textcoords="offset points",
        ha="center",
        va=anchor,
        color=MODEL,
        annotation_clip=False,
    )


def bin_sizes(rows: TaskRows, clusters: NDArray[np.intp], counts: NDArray[np.int64]) -> Floats:
    """The number of independent rows that tell as much as a bin's, whose clusters are alike.

    That is the number of rows over the factor by which the clusters raise the variance of the
    share of positives; at least 1, and rows per cluster where all labels are equal.
    """
    sizes = []
    for bin_ in np.split(np.argsort(rows.scores, kind="stable"), np.cumsum(counts)[:-1]):
        labels, present = rows.labels[bin_], np.unique(clusters[bin_], return_inverse=True)[1]
        share, moved = mean_influence(labels, present)
        factor = labels.size / moved.size
        if 0 < share < 1 and moved.size > 1:
            variance = float(moved @ moved) * moved.size / (moved.size - 1)
            factor = variance * labels.size / (share * (1 - share))
        sizes.append(labels.size / max(factor, 1.0))
    return np.array(sizes)


def _wilson(share: Floats, counts: Floats, z: float = 1.96) -> tuple[Floats, Floats]:
    """Wilson's interval of a share, which stays in [0, 1] at few and at extreme counts."""
    middle = (share + z**2 / (2 * counts)) / (1 + z**2 / counts)
    half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / (1 + z**2 / counts)
    return middle - half, middle + half


def _bins(counts: NDArray[np.int64]) -> str:
    few, many = f"{counts.min():,}", f"{counts.max():,}"
    bins = "1 bin" if counts.size == 1 else f"{counts.size} bins"
    return f"{bins} of {many} rows" if few == many else f"{bins} of {few} to {many} rows"


def _score_ticks(start: float, end: float) -> Floats:
    """Scores to write below an axis of log-odds: powers of ten, or even steps in a narrow range."""
    lowest, highest = 1 / (1 + np.exp([-start, -end]))
    for ticks in (SCORE_TICKS, np.array(MaxNLocator(5).tick_values(lowest, highest))):
        inside = ticks[(ticks > lowest) & (ticks < highest)]
        if inside.size >= 3:
            break
    return inside


def short(name: str) -> str:
    """Shortens a long name."""
    return name if len(name) <= LABEL_LENGTH else f"{name[: LABEL_LENGTH - 1]}…"
