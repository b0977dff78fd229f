"""The tables of `benchmarks/gates.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
from rich.table import Table
from scipy.stats import t as students_t

from benchmarks.gate_study.variants import GATES

MEAN = "mean of tasks"
_START = ("entropy", "logits")
Results = Mapping[tuple[str, str, int], Mapping[str, Any]]  # by set, gate and seed


def aucs(results: Results, name: str, gate: str, task: str, split: str) -> dict[int, float]:
    """Returns the AUC of each seed of a gate on a set."""
    of_seeds = {seed: r[split] for (s, g, seed), r in results.items() if (s, g) == (name, gate)}
    return {
        seed: mean(by_task.values()) if task == MEAN else by_task[task]
        for seed, by_task in of_seeds.items()
    }


def difference(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[float, float]:
    """Returns the mean difference of two gates, and half its 95 % interval over other seeds.

    Args:
        one: AUC by seed.
        other: The same of the gate that is subtracted; seeds that one of them lacks are left out.
    """
    values = np.array([one[seed] - other[seed] for seed in sorted(set(one) & set(other))])
    if len(values) < 2:
        return float(values.mean()), float("nan")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(students_t.ppf(0.975, len(values) - 1) * error)


def over_sets(by_set: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Returns the mean over sets of each seed that all of them have."""
    seeds = set.intersection(*map(set, by_set))
    return {seed: mean(of_set[seed] for of_set in by_set) for seed in sorted(seeds)}


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Returns the mean rank of each row over the columns; 1 is the largest value."""
    above = (values[None] > values[:, None]).sum(axis=1)
    equal = (values[None] == values[:, None]).sum(axis=1)
    return (above + (equal + 1) / 2).mean(axis=1)


def auc_table(results: Results, sets: Sequence[str], task: str, split: str) -> Table:
    """The AUC of the first gate by set, the differences of the others, and the mean ranks.

    Args:
        results: The results of all trainings.
        sets: The sets that have the task.
        task: The task, or `MEAN`.
        split: `"valid"` or `"test"`.
    """
    first, *others = gates = _gates_of(results)
    table = Table(box=None, title=f"{split} AUC, {task}")
    columns = [f"{name} ({_seeds(results, name)})" for name in sets]
    for column in ("gate", *columns, "all sets", "mean rank"):
        table.add_column(column, justify="left" if column == "gate" else "right")
    by_gate = {g: [aucs(results, name, g, task, split) for name in sets] for g in gates}
    for of_sets in by_gate.values():
        of_sets.append(over_sets(of_sets))
    means = np.array([[mean(one.values()) for one in by_gate[gate]] for gate in gates])
    ranks = [f"{rank:.1f}" for rank in mean_ranks(means[:, :-1])]
    table.add_row(first, *(f"{value:.4f}" for value in means[0]), ranks[0])
    for gate, rank in zip(others, ranks[1:], strict=True):
        pairs = zip(by_gate[gate], by_gate[first], strict=True)
        table.add_row(gate, *(_signed(*difference(*pair)) for pair in pairs), rank)
    return table


def choice_table(results: Results, sets: Sequence[str]) -> Table:
    """The means over seeds of what gates do, by set and gate."""
    table = Table(box=None, title="Gates of the best epoch, on validation rows")
    measured = [r for r in results.values() if r["end"]]
    names = list(dict.fromkeys(name for result in measured for name in result["end"]))
    for column in ("set", "gate", "weights", *(f"{name} at start" for name in _START), *names):
        table.add_column(column, justify="left" if column in ("set", "gate") else "right")
    for name in sets:
        for gate in _gates_of(results):
            these = [r for (s, g, _), r in results.items() if (s, g) == (name, gate)]
            if not these:
                continue
            figures = [_mean(these, "start", key) for key in _START]
            figures += [_mean(these, "end", key) for key in names]
            table.add_row(name, gate, f"{these[0]['weights']:,}", *figures)
    return table


def _gates_of(results: Results) -> list[str]:
    present = {gate for _, gate, _ in results}
    return [gate for gate in GATES if gate in present]


def _seeds(results: Results, name: str) -> int:
    return len({seed for s, _, seed in results if s == name})


def _mean(results: Sequence[Mapping[str, Any]], when: str, key: str) -> str:
    values = [result[when][key] for result in results if key in result[when]]
    return f"{mean(values):.3f}" if values else ""


def _signed(value: float, half: float) -> str:
    return f"{value:+.4f} ±{half:.4f}"
