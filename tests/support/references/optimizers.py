"""What the optimizers of rows compute, one row at a time, in float64."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Array = np.ndarray
Batch = tuple[Array, Array]  # ids (N,) and a gradient for each of them (N, E)


def adam(row: Array, gradient: Array, slots: dict[str, Array], rate: float, step: int) -> Array:
    m, v = slots.get("m", 0 * row), slots.get("v", 0 * row)
    slots["m"] = m = 0.9 * m + 0.1 * gradient
    slots["v"] = v = 0.999 * v + 0.001 * gradient**2
    mean, square = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return row - rate * mean / (np.sqrt(square) + 1e-7 / np.sqrt(1 - 0.999**step))


def adagrad(row: Array, gradient: Array, slots: dict[str, Array], rate: float, step: int) -> Array:
    slots["a"] = slots.get("a", 0.1) + gradient**2
    return row - rate * gradient / np.sqrt(slots["a"] + 1e-7)


def row_wise(row: Array, gradient: Array, slots: dict[str, Array], rate: float, step: int) -> Array:
    slots["a"] = slots.get("a", 0.0) + np.mean(gradient**2)
    return row - rate * gradient / (np.sqrt(slots["a"]) + 1e-8)


def train(
    formula: Callable[..., Array],
    table: Array,
    batches: Iterable[Batch],
    rate: Callable[[int], float],
    options: dict[str, Any],
) -> Array:
    """The table after some steps."""
    table = table.astype("float64")
    slots: dict[int, dict[str, Array]] = defaultdict(dict)
    lookups: dict[int, int] = defaultdict(int)
    for step, (ids, gradients) in enumerate(batches, 1):
        for i, total in clipped(summed(ids, gradients), options).items():
            lookups[i] += int(np.sum(ids == i))
            total = total + options.get("l2", 0.0) * table[i] / lookups[i]
            now = rate(step - 1)
            table[i] -= now * options.get("weight_decay", 0.0) * table[i]
            table[i] = formula(table[i], total, slots[i], now, step)
    return table


def summed(ids: Array, gradients: Array) -> dict[int, Array]:
    """The gradient of each row that has one."""
    totals: dict[int, Array] = {}
    for i, gradient in zip(ids.tolist(), gradients.astype("float64"), strict=True):
        totals[i] = totals.get(i, 0.0) + gradient
    return {i: total for i, total in totals.items() if np.any(total != 0)}


def clipped(totals: dict[int, Array], options: dict[str, Any]) -> dict[int, Array]:
    limit = options.get("clipvalue", np.inf)
    norm = np.sqrt(sum(np.sum(total**2) for total in totals.values()))
    factor = min(1.0, options.get("clipnorm", options.get("global_clipnorm", np.inf)) / norm)
    return {i: np.clip(factor * total, -limit, limit) for i, total in totals.items()}
