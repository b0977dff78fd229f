"""The `[[evaluation.gates]]` tables of an experiment: what a model must reach to be exported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.errors import check_known
from pipelines.common.toml_table import TomlTable
from pipelines.metrics import METRICS
from pipelines.metrics.metric import Metric
from recsys_attn.schema import Task
from serving.state.errors import did_you_mean

_DIFFERENCE = "_difference"  # to all other rows


class GateOptions(TomlTable):
    """A gate: limits of a metric; `evaluate` fails and `export` refuses outside of them.

    Attributes:
        task: The task.
        metric: The metric, as metrics.json names it: `auc`, `gauc`, `logloss`, `calibration`,
            `ndcg@10` or one of your own; of a segment also `excess_logloss`, and `auc_difference`
            and `excess_logloss_difference` to all other rows. With `against` one of `auc`, `gauc`,
            `logloss` and `normalised_entropy`, of a segment `auc` or `logloss`.
        at_least: The smallest number that passes.
        at_most: The largest number that passes.
        segment: A segment of `evaluation.segments`, such as `device=tablet`. None: all rows.
        against: Folder of another run, evaluated on the same rows: the gated number is this
            model's metric less that of the other one, and its interval that of the paired
            difference. None: the metric itself.
        by: What must keep the limits: the value, or its 95 % interval, so that chance alone
            rarely lets a worse model pass.
        rows: Labelled rows below which the gate is not decided: it is reported and does not fail.
    """

    task: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    segment: str | None = None
    against: Path | None = None
    by: Literal["value", "interval"] = "value"
    rows: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check_limits(self) -> GateOptions:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a gate needs `at_least`, `at_most` or both. Received: neither")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(
                "`at_least` must not be above `at_most`. Received: "
                f"at_least={self.at_least:g} and at_most={self.at_most:g}"
            )
        return self


def check_gate(
    key: str,
    gate: GateOptions,
    task: Task,
    whole: Sequence[str],
    segments: Sequence[tuple[str, ...]],
) -> None:
    """Checks that a gate names a metric of its task, and columns of segments.

    Args:
        key: The key of the gate.
        gate: The gate.
        task: Its task.
        whole: Further metrics of all rows: those at k and the user's.
        segments: The columns and pairs of `evaluation.segments`.

    Raises:
        ValueError: A name is unknown; the message names the key and the most similar name.
    """
    known = [*_measured(gate), *(whole if gate.segment is None and gate.against is None else ())]
    known = of_task(task, known)
    check_known(f"{key}.metric", [gate.metric], known)
    with_interval = [name for name in known if has_interval(name)]
    if gate.by == "interval" and gate.against is None and gate.metric not in with_interval:
        raise ValueError(
            f"`{key}.by`: {gate.metric!r} has no interval; expected one of "
            f"{', '.join(map(repr, with_interval))}, or by = 'value'."
        )
    if gate.segment is not None:
        _check_segment(f"{key}.segment", gate.segment, segments)


def of_task(task: Task, metrics: Sequence[str]) -> list[str]:
    """The metrics of a task; a task without probabilities has fewer."""
    return [m for m in metrics if task.has_probabilities or not _needs_probabilities(m)]


def _measured(gate: GateOptions) -> list[str]:
    """The metrics of every report for the rows of a gate."""
    if gate.against is not None:
        places = METRICS.where("models") if gate.segment is None else METRICS.compared_in_segments
        return [metric.name for metric in places]
    if gate.segment is None:
        return [metric.name for metric in METRICS.of_all_rows]
    return [
        *(metric.name for metric in METRICS.where("segments")),
        *(f"{metric.name}{_DIFFERENCE}" for metric in METRICS.where("segments", "rest")),
    ]


def _metric(name: str) -> Metric | None:
    """The metric of a name, or of a difference of it; None of one at k."""
    return METRICS.get(name) or METRICS.get(name.removesuffix(_DIFFERENCE))


def _needs_probabilities(name: str) -> bool:
    metric = _metric(name)
    return metric is not None and metric.needs_probabilities


def has_interval(name: str) -> bool:
    """Whether a metric has an interval."""
    metric = _metric(name)
    return metric is not None and metric.influence is not None


def _check_segment(key: str, segment: str, segments: Sequence[tuple[str, ...]]) -> None:
    """Checks the columns of a segment; its values are known with the data."""
    for columns in segments:
        pattern = ", ".join(f"{re.escape(column)}=.*" for column in columns)
        pair_of_others = f"{re.escape(', '.join(columns))}=.*"
        if re.fullmatch(f"{pattern}|{pair_of_others}", segment, re.DOTALL):
            return
    forms = [", ".join(f"{column}=..." for column in columns) for columns in segments]
    near = did_you_mean(re.sub("=[^,]*", "=...", segment), forms)
    raise ValueError(
        f"`{key}` names {segment!r}; expected a segment of `evaluation.segments`: "
        f"{' or '.join(map(repr, forms)) or 'none is given'}.{near}"
    )
