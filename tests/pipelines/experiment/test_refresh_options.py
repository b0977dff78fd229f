"""The `[refresh]` table: gates beside the serving version, with names that are checked."""

import pytest

from pipelines.experiment.evaluation_options import EvaluationOptions, check_refresh
from pipelines.experiment.gate_options import GateOptions
from pipelines.experiment.refresh_options import RefreshOptions
from recsys_attn.schema import Task

TASKS = (Task("click"), Task("order", loss="softmax"))


def test_default_gates_pass_what_they_compare() -> None:
    gates = RefreshOptions().gates_of(TASKS)
    assert [(gate.task, gate.metric) for gate in gates] == [
        ("click", "auc"),
        ("order", "auc"),
        ("click", "logloss"),
    ]
    check_refresh(RefreshOptions(gates=gates), EvaluationOptions(), TASKS)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"metric": "ici"}, r"refresh.gates\[0\].metric` names 'ici'"),
        ({"metric": "auc", "task": "buy"}, r"refresh.gates\[0\].task` names 'buy'"),
        ({"metric": "auc", "against": "runs/a"}, "remove `against`. Received: 'runs/a'"),
    ],
)
def test_gate_of_another_name_is_refused(gate: dict[str, str], message: str) -> None:
    options = GateOptions.model_validate({"task": "click", "at_least": 0.0, **gate}, strict=False)
    with pytest.raises(ValueError, match=message):
        check_refresh(RefreshOptions(gates=(options,)), EvaluationOptions(), TASKS)


def test_gates_that_are_set_replace_the_default() -> None:
    gates = (GateOptions(task="click", metric="gauc", at_least=0.0),)
    assert RefreshOptions(gates=gates).gates_of(TASKS) == gates
