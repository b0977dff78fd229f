"""Decides the gates of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import EVALUATION, MANIFEST, read_json
from pipelines.common.errors import GateError, PipelineError
from pipelines.evaluation.row_cuts import Cut
from pipelines.experiment.gate_options import GateOptions
from pipelines.report.compared_models import Side, check_same_rows
from pipelines.report.comparison import TaskComparison
from pipelines.report.gate_words import FAILED, PASSED, UNDECIDED, limits, measured, subject
from pipelines.report.results import Evaluation
from serving.state.errors import DataError, did_you_mean


def check_segments(gates: Sequence[GateOptions], cuts: Sequence[Cut]) -> None:
    """Checks before any scoring that the rows have the segments of gates.

    A gate with `rows` may name one that has none today.

    Raises:
        PipelineError: A segment is missing.
    """
    names = [name for cut in cuts for name in cut.names]
    for index, gate in enumerate(gates):
        if gate.segment is not None and gate.segment not in names and not gate.rows:
            raise PipelineError(
                f"`evaluation.gates[{index}].segment`: the evaluated rows have no segment "
                f"{gate.segment!r}.{did_you_mean(gate.segment, names)} Set `rows` of the gate if "
                "it may be missing."
            )


def other_evaluations(gates: Sequence[GateOptions], run: Path) -> dict[str, str]:
    """Fingerprints of the evaluations that gates compare with, by key.

    Args:
        gates: The gates.
        run: The folder of this run.

    Raises:
        PipelineError: A run is not evaluated, or is this one.
    """
    fingerprints = {}
    for index, gate in enumerate(gates):
        if gate.against is None:
            continue
        key, manifest = f"evaluation.gates[{index}].against", gate.against / EVALUATION / MANIFEST
        if gate.against.resolve() == run.resolve():
            raise PipelineError(f"`{key}`: {gate.against} is this run; expected another one.")
        if not manifest.is_file():
            raise PipelineError(
                f"`{key}`: {gate.against} is not the folder of an evaluated run: {manifest} does "
                "not exist. Name such a run, or evaluate it first."
            )
        fingerprints[key] = read_json(manifest)["fingerprint"]
    return fingerprints


def decide(gates: Sequence[GateOptions], evaluation: Evaluation) -> list[dict[str, Any]]:
    """The gates with their numbers and results, as the evaluation's metrics.json has them.

    A gate of fewer rows than its `rows` is not decided. A metric that the data does not define
    fails.

    Args:
        gates: The gates.
        evaluation: The metrics and the predictions of the model.

    Raises:
        PipelineError: The run that a gate compares with has other rows, labels or tasks.
    """
    return [
        _decided(gate, evaluation, f"evaluation.gates[{index}]") for index, gate in enumerate(gates)
    ]


def check_passed(gates: Sequence[Mapping[str, Any]]) -> None:
    """Checks that no gate failed.

    Args:
        gates: What `decide` returns.

    Raises:
        GateError: A gate failed; the sentence names it with its number.
    """
    failed = [
        f"`evaluation.gates[{index}]`: {subject(gate)} is {measured(gate)}, expected {limits(gate)}"
        for index, gate in enumerate(gates)
        if gate["result"] == FAILED
    ]
    if failed:
        which = "a gate" if len(failed) == 1 else f"{len(failed)} gates"
        raise GateError(
            f"The model failed {which}, so it is not exported: {'; '.join(failed)}. Improve the "
            "model, or change the limits."
        )


def _decided(gate: GateOptions, evaluation: Evaluation, key: str) -> dict[str, Any]:
    metrics = task = evaluation.metrics["tasks"][gate.task]
    if gate.segment is not None:
        named = {segment["name"]: segment for segment in task["segments"]}
        metrics = named.get(gate.segment, {"rows": 0})
    if gate.against is None:
        every = {**metrics.get("own", {}), **metrics.get("at_k", {}), **metrics}
        value, interval = every.get(gate.metric), metrics.get("intervals", {}).get(gate.metric)
    else:
        value, interval = _difference(gate, gate.against, evaluation, key)
    ends = interval
    if gate.by == "value":
        ends = None if value is None else [value, value]
    if metrics["rows"] < gate.rows:
        result = UNDECIDED
    else:
        result = PASSED if ends is not None and _holds(gate, *ends) else FAILED
    counted = {"value": value, "interval": interval, "counted": metrics["rows"]}
    return {**gate.model_dump(mode="json"), **counted, "result": result}


def _difference(
    gate: GateOptions, against: Path, evaluation: Evaluation, key: str
) -> tuple[float | None, list[float] | None]:
    """The paired difference to the other run, and its interval."""
    other = Evaluation.read(against / EVALUATION)
    both = {"this run": evaluation, str(against): other}
    try:
        check_same_rows(both)
    except DataError as error:
        raise PipelineError(f"`{key}.against`: {error}") from None
    if gate.task not in other.metrics["tasks"]:
        raise PipelineError(f"`{key}.against`: {against} has no task {gate.task!r}.")
    sides = [Side({name: one}) for name, one in both.items()]
    compared = TaskComparison(gate.task, sides)
    if gate.segment is None:
        difference = compared.differences(*sides).get(gate.metric)
    else:
        difference = compared.within(gate.segment, *sides)[gate.metric]
    return (
        (None, None) if difference is None else (difference["difference"], difference["interval"])
    )


def _holds(gate: GateOptions, low: float, high: float) -> bool:
    above = gate.at_least is None or low >= gate.at_least
    return above and (gate.at_most is None or high <= gate.at_most)
