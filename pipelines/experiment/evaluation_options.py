"""The `[evaluation]` table of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.common.errors import check_known
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.gate_options import GateOptions, check_gate
from pipelines.experiment.refresh_options import RefreshOptions
from pipelines.metrics import AT_K
from recsys_attn.schema import Task


class EvaluationOptions(TomlTable):
    """The `[evaluation]` table.

    Attributes:
        split: The evaluated split.
        group: Column of the groups of GAUC, usually the user. None: the request, if there is one.
        at: Places of HR, NDCG, MRR and MAP, which rank the candidates of a request.
        ceiling: By task, the column with its true probabilities, as simulated data have them.
        baselines: By name, the column with the scores of a simple rule to compare with.
        baseline_models: Whether logistic regression and trees are fitted on the same columns, to
            compare the model with. They take seconds; set it false where even these count.
        metrics: Metrics of your own, by name, or as tables of the name and its options.
        segments: Columns, and pairs of them, whose values divide the rows: metrics of each
            segment, with its difference to all other rows. A number with more than 12 values is
            cut into five of equally many rows, and a list counts by its length.
        slices: Columns whose values, and pairs of values, are searched for the worst slices: found
            on half of the users, confirmed on the other half. True: all features; a list counts by
            its length.
        importance_rows: About how many rows, at most, show how important the features are: more
            make the intervals narrower, 0 leaves it out.
        attention_rows: About how many rows, at most, show what each head attends and does, how
            features interact, and which experts tasks use; 0 leaves it out.
        relevance_rows: How many rows, at most, show which fields and events the scores come from,
            and which method tells it: more make the intervals narrower and take longer, 0 leaves
            it out.
        budget: Time of importance, attention and relevance together, as a share of the training's.
            Where their rows would take longer they take fewer, and `evaluate` prints the number
            that shows all. Time is counted in rows that pass through the model, at least 100,000,
            so that results do not depend on the machine.
        layer_wise_relevance: Whether layer-wise relevance propagation is one of these methods. It
            is patented; see the tutorial.
        gates: Limits of metrics; a model outside of them is not exported.
    """

    split: Literal["train", "valid", "test"] = "test"
    group: str | None = None
    at: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(10,), min_length=1)
    ceiling: dict[str, str] = Field(default_factory=dict)
    baselines: dict[str, str] = Field(default_factory=dict)
    baseline_models: bool = True
    metrics: tuple[str | dict[str, Any], ...] = ()
    segments: tuple[str | tuple[str, ...], ...] = ()
    slices: bool | tuple[str, ...] = False
    importance_rows: int = Field(default=20_000, ge=0)
    attention_rows: int = Field(default=5_000, ge=0)
    relevance_rows: int = Field(default=400, ge=0)
    budget: float = Field(default=0.2, gt=0)
    layer_wise_relevance: bool = False
    gates: tuple[GateOptions, ...] = ()

    @model_validator(mode="after")
    def _check_audit(self) -> EvaluationOptions:
        if self.layer_wise_relevance and not self.relevance_rows:
            raise ValueError(
                "`layer_wise_relevance` needs rows: give `relevance_rows`, such as 400, or leave "
                "it out. Received: relevance_rows=0"
            )
        return self

    @model_validator(mode="after")
    def _check_segments(self) -> EvaluationOptions:
        for columns in self.segmentations:
            if len(columns) > 2 or len(set(columns)) < len(columns) or not columns:
                raise ValueError(
                    "`segments` has columns, and pairs of two different columns. Received: "
                    f"{list(columns)}"
                )
        if len(set(self.segmentations)) < len(self.segmentations):
            raise ValueError(
                f"`segments` must name each column or pair once. Received: {list(self.segments)}"
            )
        return self

    @model_validator(mode="after")
    def _check_slices(self) -> EvaluationOptions:
        if isinstance(self.slices, tuple) and len(set(self.slices)) < len(self.slices):
            raise ValueError(f"`slices` must name each column once. Received: {list(self.slices)}")
        return self

    def searched(self, features: Sequence[str]) -> list[str]:
        """The columns that are searched for slices, given those of the features."""
        if isinstance(self.slices, tuple):
            return list(self.slices)
        return list(features) if self.slices else []

    @property
    def metrics_only(self) -> EvaluationOptions:
        """These options without anything that takes further passes over the rows."""
        return self.model_copy(
            update={
                "baseline_models": False,
                "importance_rows": 0,
                "attention_rows": 0,
                "relevance_rows": 0,
                "layer_wise_relevance": False,
            }
        )

    @property
    def own_metrics(self) -> dict[str, dict[str, Any]]:
        """The options of each metric in `metrics`."""
        tables = [{"name": m} if isinstance(m, str) else m for m in self.metrics]
        return {t["name"]: {k: v for k, v in t.items() if k != "name"} for t in tables}

    @property
    def further_metrics(self) -> list[str]:
        """The metrics at k, and the user's."""
        return [f"{metric}@{k}" for k in self.at for metric in AT_K] + list(self.own_metrics)

    @property
    def segmentations(self) -> list[tuple[str, ...]]:
        """`segments`, each as the one or two columns that it names."""
        return [(one,) if isinstance(one, str) else one for one in self.segments]

    @property
    def columns(self) -> dict[str, str]:
        """Data columns besides features and labels, by key."""
        named = {} if self.group is None else {"evaluation.group": self.group}
        for key, columns in (("ceiling", self.ceiling), ("baselines", self.baselines)):
            named |= {f"evaluation.{key}.{name}": column for name, column in columns.items()}
        for index, segment in enumerate(self.segments):
            key = f"evaluation.segments[{index}]"
            if isinstance(segment, str):
                named[key] = segment
            else:
                named |= {f"{key}[{place}]": column for place, column in enumerate(segment)}
        for index, column in enumerate(self.searched([])):
            named[f"evaluation.slices[{index}]"] = column
        return named


def check_gates(options: EvaluationOptions, tasks: Sequence[Task]) -> None:
    """Checks that gates name tasks, metrics and segments of the experiment.

    Raises:
        ValueError: A name is unknown; the message names the key and the most similar name.
    """
    _check_gates("evaluation.gates", options.gates, options, tasks)


def check_refresh(
    refresh: RefreshOptions, options: EvaluationOptions, tasks: Sequence[Task]
) -> None:
    """Checks the gates of `[refresh]`, as `check_gates` does those of `[evaluation]`.

    Raises:
        ValueError: As `check_gates`; or a gate names a run to compare with.
    """
    gates = refresh.gates or ()
    for index, gate in enumerate(gates):
        if gate.against is not None:
            raise ValueError(
                f"`refresh.gates[{index}]` compares with the serving version; remove `against`. "
                f"Received: {str(gate.against)!r}"
            )
    beside = [gate.model_copy(update={"against": Path()}) for gate in gates]
    _check_gates("refresh.gates", beside, options, tasks)


def _check_gates(
    name: str, gates: Sequence[GateOptions], options: EvaluationOptions, tasks: Sequence[Task]
) -> None:
    by_name = {task.name: task for task in tasks}
    for index, gate in enumerate(gates):
        key = f"{name}[{index}]"
        check_known(f"{key}.task", [gate.task], list(by_name))
        check_gate(key, gate, by_name[gate.task], options.further_metrics, options.segmentations)


def check_slices(options: EvaluationOptions, tasks: Sequence[Task]) -> None:
    """Checks that slices have a task to be searched for, and are not made of its label.

    Raises:
        ValueError: No task has probabilities, or a slice is made of a label; names the key.
    """
    if options.slices and not any(task.has_probabilities for task in tasks):
        raise ValueError(
            "`evaluation.slices` needs a task with probabilities, whose excess of logloss it "
            "compares; the losses of all tasks only see the order of the scores. Leave it out."
        )
    outcomes = {name for task in tasks for name in (task.label_column, task.mask) if name}
    for index, column in enumerate(options.searched([])):
        if column in outcomes:
            raise ValueError(
                f"`evaluation.slices[{index}]` names {column!r}, a label or mask of a task; "
                "expected columns that are known before the outcome."
            )
