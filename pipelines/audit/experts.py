"""The gates of experts, by task and by segment of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.head_statistics import Codes
from pipelines.audit.recorder import Floats
from pipelines.audit.redundancy import ALIKE
from pipelines.metrics.intervals import Interval, interval_of, mean_influence, with_ends

UNUSED, ALONE, SAME, EVEN = 0.01, 0.99, 0.001, 0.99
SEGMENTS = 12  # of a column, whose gates are shown


class TaskGates(NamedTuple):
    """The gates of one task.

    Attributes:
        shares: The mean share of each expert.
        first: How often each expert has the largest share.
        spread: Mean entropy of the shares of a row in units of that of equal shares: near 0 where
            each row has one expert, 1 where all experts count equally.
        variation: Mean distance of a row's shares from their mean, half the sum of the absolute
            differences: 0 where the gate does not look at the row.
    """

    shares: list[Interval]
    first: Floats
    spread: float
    variation: float


def task_gates(gates: Floats, clusters: Codes) -> TaskGates:
    """The gates of one task from the share of each expert, (rows, experts)."""
    values = gates.astype(np.float64)
    experts = values.shape[1]
    return TaskGates(
        [interval_of(*mean_influence(values[:, expert], clusters)) for expert in range(experts)],
        np.bincount(values.argmax(axis=1), minlength=experts) / len(values),
        _evenness(values),
        float(np.abs(values - values.mean(axis=0)).sum(axis=1).mean() / 2),
    )


def _evenness(gates: Floats) -> float:
    """The mean entropy of a row's shares, in units of that of equal ones."""
    values = gates.astype(np.float64)
    logs = np.log(values, out=np.zeros_like(values), where=values > 0)
    return float(-(values * logs).sum(axis=1).mean() / np.log(max(values.shape[1], 2)))


def apart(one: Floats, other: Floats) -> float:
    """Mean distance of the gates of two tasks on the same rows: 0 for equal ones, at most 1."""
    return float(np.abs(one.astype(np.float64) - other).sum(axis=1).mean() / 2)


def by_segment(gates: Floats, codes: NDArray[Any], segments: int) -> Floats:
    """The mean share of each expert in each segment, (segments, experts); NaN for an empty one."""
    counts = np.bincount(codes, minlength=segments)[:, None]
    total = np.stack([np.bincount(codes, column, segments) for column in gates.T], axis=1)
    return np.divide(total, counts, out=np.full(total.shape, np.nan), where=counts > 0)


def warnings_of(by_task: Mapping[str, Floats], likeness: Floats | None = None) -> Iterator[str]:
    """Sentences about experts that are not used, and gates that do not choose.

    Args:
        by_task: The share of each expert by task, (rows, experts).
        likeness: CKA of the outputs of each pair of experts.
    """
    means = {task: gates.mean(axis=0) for task, gates in by_task.items()}
    yield from died(means)
    for task, shares in means.items():
        if shares.max() > ALONE and len(shares) > 1:
            yield (
                f"Task {task!r} uses expert {int(shares.argmax()) + 1} alone: its gate has "
                "collapsed."
            )
        if len(shares) > 1 and _evenness(by_task[task]) > EVEN:
            yield (
                f"Task {task!r} hardly chooses: the shares of its experts have more than "
                f"{EVEN:.0%} of the entropy of equal ones, so their mean would do as well."
            )
    names = list(by_task)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            if apart(by_task[one], by_task[other]) < SAME:
                yield (
                    f"The tasks {one!r} and {other!r} have the same gates: one shared network "
                    "would do as well as the experts."
                )
    yield from _alike(likeness, list(means.values()))


def died(means: Mapping[str, Floats]) -> Iterator[str]:
    """Sentences about experts that no task uses.

    Args:
        means: The mean share of each expert by task.
    """
    for expert, most in enumerate(np.max(list(means.values()), axis=0)):
        if most < UNUSED:
            yield (
                f"Expert {expert + 1} has less than {UNUSED:.0%} of every task: it has died. Train "
                "with fewer experts; or, in a model that has them, with a `balance`, or with "
                "`gates.experts` to cut it out."
            )


def _alike(likeness: Floats | None, means: Sequence[Floats]) -> Iterator[str]:
    if likeness is None:
        return
    used = np.flatnonzero(np.max(means, axis=0) >= UNUSED)
    pairs = [(i, j) for i in used for j in used if i < j and likeness[i, j] > ALIKE]
    if pairs:
        several = len(used) * (len(used) - 1) // 2
        named = ", ".join(f"{i + 1} and {j + 1}" for i, j in pairs)
        which = (
            f"All {len(used)} experts have" if len(pairs) == several else f"Experts {named} have"
        )
        yield (
            f"{which} nearly the same outputs (CKA above {ALIKE}). Fewer experts, or a "
            "`disagreement` of `experts`, would cost less."
        )


def audited_gates(
    gates: Mapping[str, Floats],
    codes: NDArray[Any],
    segments: Sequence[tuple[Sequence[str], NDArray[Any]]],
    likeness: Floats | None,
) -> dict[str, Any]:
    """The gates by task and by segment, as metrics.json has them.

    Args:
        gates: The share of each expert by task, (rows, experts).
        codes: Number of each row's user or request.
        segments: For each column, the names of its segments and the number of each row's.
        likeness: CKA of the outputs of each pair of experts; None: unknown.
    """
    tasks = {}
    for task, of_task in gates.items():
        gates_of_task = task_gates(of_task, codes)
        tasks[task] = {
            "shares": [with_ends(share) for share in gates_of_task.shares],
            "first": gates_of_task.first.tolist(),
            "spread": gates_of_task.spread,
            "variation": gates_of_task.variation,
            "segments": {
                name: shares.tolist()
                for names, of_rows in segments
                if len(names) <= SEGMENTS
                for name, shares in zip(
                    names, by_segment(of_task, of_rows, len(names)), strict=True
                )
                if not np.isnan(shares).any()
            },
        }
    names = list(gates)
    return {
        "tasks": tasks,
        "apart": [
            [one, other, apart(gates[one], gates[other])]
            for index, one in enumerate(names)
            for other in names[index + 1 :]
        ],
        "likeness": None if likeness is None else likeness.tolist(),
        "warnings": list(warnings_of(gates, likeness)),
    }
