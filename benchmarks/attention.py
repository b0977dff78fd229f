"""Time and peak memory of every kind of attention, over the length of a history.

    python benchmarks/attention.py    # less: --lengths 64 --lengths 1024 --only local --only elu

A history attends to itself through `MultiHeadAttention`, with 2 heads of 32 and a width of 64, in
compiled graphs on the CPU. A training step goes forward, and back to all weights and the inputs.
Times are medians. Memory is the most that TensorFlow's allocator held during a step beyond inputs
and weights; it does not count tensors below 256 KiB, so it says little below 1,024 events. Dense
attention over 16,384 events takes up to 9 GB.

"claims" is how the time for a whole history of length S is to grow; where the time for one event
grows more than 1.5 times as much, the table has a `!`. Nothing is asserted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, product
from pathlib import Path
from typing import NamedTuple

import click
import keras
import matplotlib
import numpy as np
import tensorflow as tf
from keras import ops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from recsys_attn.attention import presets
from recsys_attn.attention.compressors.segments import Segments
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.patterns.window import Local
from recsys_attn.attention.routers.blocks import Blocks

HEADS, HEAD_DIM = 2, 32
LENGTHS = tuple(2**power for power in range(6, 15))
BASE = 1024  # what the longest history is compared with; below it the overhead is most of it
LEAST, MOST, SECONDS = 5, 50, 0.6  # rounds, and when to stop in between
POWERS = {"S": 1.0, "S log S": 1.0, "S√S": 1.5, "S²": 2.0, "S²/3": 2.0}
FAMILIES = ("dense", "by position", "by content", "compressed", "linear")
COLOURS = ("Greys", "Blues", "RdPu", "Greens", "YlOrBr")  # of the families, dark to light


class Subject(NamedTuple):
    """A mechanism that is measured; `make` takes the length."""

    family: str
    name: str
    claims: str
    make: Callable[[int], keras.layers.Layer]


class Cost(NamedTuple):
    seconds: float
    mebibytes: float


Costs = dict[tuple[str, int], tuple[Cost, Cost]]  # forward and training, by name and length


def subjects() -> list[Subject]:
    """Dense attention, which all are compared with, and the others."""
    dense, near, alike, compressed, linear = (partial(Subject, family) for family in FAMILIES)
    p = presets
    return [
        dense("dense", "S²", lambda _: p.transformer()),
        dense("dense, masked to ±64", "S²", lambda _: p.transformer(pattern=Local(64))),
        near("local ±64", "S", lambda _: p.local(64)),
        near("local 64, causal", "S", lambda _: Routed(Blocks(64, after=0), pattern=Local(64, 0))),
        near("longformer ±64", "S", lambda _: p.longformer(64)),
        near("bigbird, blocks of 64", "S", lambda _: p.bigbird(64)),
        alike("reformer, 4 rounds", "S log S", lambda _: p.reformer(64, rounds=4)),
        alike("routing, √S clusters", "S√S", lambda s: p.routing_transformer(*[round(s**0.5)] * 2)),
        alike("routing, 16 of 64 events", "S", lambda _: p.routing_transformer(16, 64)),
        alike("sinkhorn, blocks of 64", "S", lambda _: p.sinkhorn(64)),
        compressed("linformer, rank 64", "S", lambda _: p.linformer(64)),
        compressed("64 segments", "S", lambda _: Compressed(Segments(64))),
        compressed("memory-compressed, 3", "S²/3", lambda _: p.memory_compressed(3)),
        compressed("memory-compressed, 64", "S", lambda _: p.memory_compressed(3, summaries=64)),
        linear("elu", "S", lambda _: p.linear_transformer()),
        linear("elu, causal", "S", lambda _: p.linear_transformer(causal=True)),
        linear("retention, causal", "S", lambda _: p.retention(causal=True)),
        linear("gated, causal", "S", lambda _: p.gated_linear_attention(causal=True)),
        linear("efficient", "S", lambda _: p.efficient_attention()),
        linear("taylor", "S", lambda _: p.taylor()),
        linear("fourier, 128", "S", lambda _: p.random_feature_attention(128)),
        linear("FAVOR+, 256", "S", lambda _: p.performer(256)),
        linear("FAVOR+, 256, causal", "S", lambda _: p.performer(256, causal=True)),
    ]


def steps(mechanism: keras.layers.Layer, length: int) -> tuple[Callable[[], object], ...]:
    """Forward, and a training step, compiled for one history."""
    keras.utils.set_random_seed(0)
    history = keras.random.normal((1, length, HEADS * HEAD_DIM))
    layer = MultiHeadAttention(HEADS, HEAD_DIM, mechanism)
    layer.build(history.shape)

    @tf.function
    def forward() -> tf.Tensor:
        return layer(history)

    @tf.function
    def train() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(history)
            loss = ops.sum(ops.square(layer(history, training=True)))
        return tape.gradient(loss, [*layer.trainable_variables, history])

    return forward, train


def measure(step: Callable[[], object]) -> Cost:
    """The median time of some rounds, and the most memory of any."""
    for _ in range(2):  # the first one compiles
        step()
    gc.collect()
    before = _allocated("current")
    times: list[float] = []
    while len(times) < LEAST or (len(times) < MOST and sum(times) < SECONDS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return Cost(float(np.median(times)), (_allocated("peak") - before) / 2**20)


def _allocated(which: str) -> float:
    """Bytes, now or the most since the last time; 0 where the allocator does not count."""
    try:
        megabytes = tf.config.experimental.get_memory_info("CPU:0")[which]
        tf.config.experimental.reset_memory_stats("CPU:0")
    except ValueError:
        return 0
    return megabytes


class Report(NamedTuple):
    """The report on the costs: tables, and the exponents of time and memory."""

    measured: Sequence[Subject]
    lengths: Sequence[int]
    costs: Costs

    def table(self, kind: int) -> Table:
        """One row a mechanism, forward (0) or training (1)."""
        last, base = self.lengths[-1], BASE if BASE in self.lengths else self.lengths[0]
        columns = self.lengths[::-1][:: 2 if len(self.lengths) > 6 else 1][::-1]
        heads = [*(f"{length:,}" for length in columns), f"{last:,} :\n{base:,}"]
        heads += [f"MiB at\n{length:,}" for length in columns[-2:]] + ["faster than\ndense from"]
        table = Table("mechanism", "claims", *(Column(h, justify="right") for h in heads), box=None)
        table.title = f"{('Forward', 'Training step')[kind]}, microseconds per event"
        table.title_justify = "left"
        for _, name, claims, _ in self.measured:
            costs = {length: self.costs[name, length][kind] for length in self.lengths}
            micros = {length: 1e6 * cost.seconds / length for length, cost in costs.items()}
            growth = micros[last] / micros[base]
            much = growth > 1.5 * (last / base) ** (POWERS[claims] - 1)
            row = [name, claims, *(f"{micros[length]:.2f}" for length in columns)]
            row += [f"[red]! {growth:.2f}[/]" if much else f"{growth:.2f}"]
            row += [f"{costs[length].mebibytes:,.0f}" for length in columns[-2:]]
            table.add_row(*row, self._faster_from(name, kind))
        return table

    def _faster_from(self, name: str, kind: int) -> str:
        """The length from which on it takes less time than dense attention."""
        shortest = "-"
        for length in reversed(self.lengths):
            it, dense = (self.costs[mechanism, length][kind] for mechanism in (name, "dense"))
            if it.seconds >= dense.seconds:
                break
            shortest = f"{length:,}"
        return shortest

    def picture(self) -> Figure:
        """Time and memory of a training step, both axes logarithmic."""
        figure = Figure(figsize=(16, 8))
        time_panel, memory_panel = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.04, right=0.87, bottom=0.07, top=0.94, wspace=0.45)
        self._draw(time_panel, "Training step, seconds", "seconds")
        self._draw(memory_panel, "Peak memory of a training step, MiB", "mebibytes")
        return figure

    def _draw(self, panel: Axes, title: str, field: str) -> None:
        panel.set_title(title, loc="left")
        panel.set_xscale("log", base=2)
        panel.set_yscale("log", nonpositive="mask")
        panel.set_xticks(self.lengths, [f"{length:,}" for length in self.lengths])
        panel.set_xlabel("events")
        panel.grid(color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
        lines = []
        for family, colours in zip(FAMILIES, COLOURS, strict=True):
            names = [subject.name for subject in self.measured if subject.family == family]
            for name, shade in zip(names, np.linspace(1.0, 0.5, len(names)), strict=True):
                values = [getattr(self.costs[name, s][1], field) for s in self.lengths]
                style = "--" if "causal" in name else ":" if "masked" in name else "-"
                colour = matplotlib.colormaps[colours](shade)
                panel.plot(self.lengths, values, style, color=colour)
                if values[-1] > 0:
                    lines.append((values[-1], name, colour))
        panel.autoscale_view()
        _name(panel, self.lengths[-1], sorted(lines))


def _name(panel: Axes, x: int, lines: list[tuple[float, str, tuple[float, ...]]]) -> None:
    """The names of lines, which end at x, beside their ends and a letter's height apart."""
    to_axes = panel.transData + panel.transAxes.inverted()
    ends = [float(to_axes.transform((x, y))[1]) for y, _, _ in lines]
    up = accumulate(ends, lambda below, end: max(end, below + 0.034))
    down = accumulate(ends[::-1], lambda above, end: min(end, above - 0.034))
    heights = [(a + b) / 2 for a, b in zip(up, reversed(list(down)), strict=True)]
    arrow = {"arrowstyle": "-", "color": "0.8", "relpos": (0, 0.5)}
    for (y, name, colour), height in zip(lines, heights, strict=True):
        label = panel.annotate(name, (x, y), (1.06, height), "data", "axes fraction", arrow)
        label.set(color=colour, va="center")


@click.command()
@click.option("--lengths", multiple=True, type=click.IntRange(1), default=LENGTHS)
@click.option("--only", multiple=True, help="A part of the names of those beside dense.")
@click.option("--picture", type=click.Path(path_type=Path), default="runs/attention.png")
def main(lengths: tuple[int, ...], only: tuple[str, ...], picture: Path) -> None:
    """Prints the costs of every mechanism at every length and draws them."""
    dense, *others = subjects()
    others = [other for other in others if not only or any(part in other.name for part in only)]
    measured, lengths = [dense, *others], tuple(sorted(set(lengths)))
    tf.config.set_visible_devices([], "GPU")
    console = Console()
    costs: Costs = {}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        for subject, length in bar.track([*product(measured, lengths)], description="Measuring"):
            forward, train = steps(subject.make(length), length)
            costs[subject.name, length] = (measure(forward), measure(train))
    report = Report(measured, lengths, costs)
    for kind in (0, 1):
        Console(width=130).print(report.table(kind), "")
    picture.parent.mkdir(parents=True, exist_ok=True)
    report.picture().savefig(picture, dpi=110)
    console.print(f"The picture: {picture}")


if __name__ == "__main__":
    main()
