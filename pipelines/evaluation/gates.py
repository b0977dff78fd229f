"""Decides the gates of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.common.errors import GateError, PipelineError, did_you_mean
from pipelines.evaluation.segments import Cut
from pipelines.experiment.gate_options import GateOptions
from pipelines.report.gates import FAILED, PASSED, UNDECIDED, limits, measured, subject


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


def decide(
    gates: Sequence[GateOptions], tasks: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The gates with their numbers and results, as the evaluation's metrics.json has them.

    A gate of fewer rows than its `rows` is not decided. A metric that the data does not define
    fails.

    Args:
        gates: The gates.
        tasks: The metrics of each task.
    """
    return [_decided(gate, tasks[gate.task]) for gate in gates]


def check_passed(gates: Sequence[Mapping[str, Any]]) -> None:
    """Checks that no gate failed.

    Args:
        gates: What `decide` returns.

    Raises:
        GateError: One did; the sentence names it with its number.
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


def _decided(gate: GateOptions, task: Mapping[str, Any]) -> dict[str, Any]:
    found = task
    if gate.segment is not None:
        named = {segment["name"]: segment for segment in task["segments"]}
        found = named.get(gate.segment, {"rows": 0})
    every = {**found.get("own", {}), **found.get("at_k", {}), **found}
    value, interval = every.get(gate.metric), found.get("intervals", {}).get(gate.metric)
    ends = interval
    if gate.by == "value":
        ends = None if value is None else [value, value]
    if found["rows"] < gate.rows:
        result = UNDECIDED
    else:
        result = PASSED if ends is not None and _holds(gate, *ends) else FAILED
    counted = {"value": value, "interval": interval, "counted": found["rows"]}
    return {**gate.model_dump(), **counted, "result": result}


def _holds(gate: GateOptions, low: float, high: float) -> bool:
    above = gate.at_least is None or low >= gate.at_least
    return above and (gate.at_most is None or high <= gate.at_most)
