"""Gates pass, fail, or stay undecided."""

import io

import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.common.errors import GateError, PipelineError
from pipelines.evaluation.gates import check_passed, check_segments, decide
from pipelines.evaluation.segments import cut
from pipelines.experiment.gate_options import GateOptions
from pipelines.report.gates import print_gates

TASKS = {
    "click": {
        "rows": 1000,
        "auc": 0.72,
        "calibration": None,
        "intervals": {"auc": [0.68, 0.76]},
        "own": {"brier": 0.1},
        "at_k": {"ndcg@10": 0.4},
        "segments": [
            {
                "name": "device=tablet",
                "rows": 90,
                "auc": 0.6,
                "auc_difference": -0.12,
                "intervals": {"auc": None, "auc_difference": [-0.2, -0.04]},
            }
        ],
    }
}
TABLET = {"segment": "device=tablet"}


@pytest.mark.parametrize(
    ("gate", "result"),
    [
        ({"at_least": 0.72}, "passed"),
        ({"at_least": 0.721}, "failed"),
        ({"at_most": 0.719}, "failed"),
        ({"at_least": 0.7, "at_most": 0.75}, "passed"),
        ({"at_least": 0.7, "by": "interval"}, "failed"),
        ({"at_least": 0.68, "by": "interval"}, "passed"),
        ({"at_least": 0.6, "at_most": 0.75, "by": "interval"}, "failed"),
        ({"at_least": 0.9, "rows": 1001}, "not decided"),
        ({"at_least": 0.9, "rows": 1000}, "failed"),
        ({"metric": "calibration", "at_least": 0}, "failed"),  # it is not defined
        ({"metric": "brier", "at_most": 0.1}, "passed"),
        ({"metric": "ndcg@10", "at_least": 0.5}, "failed"),
        ({**TABLET, "at_least": 0.7}, "failed"),
        ({**TABLET, "at_least": 0.7, "rows": 100}, "not decided"),
        ({**TABLET, "at_least": 0.5, "by": "interval"}, "failed"),  # it has no interval
        ({**TABLET, "metric": "auc_difference", "at_least": -0.1}, "failed"),
        ({"segment": "device=watch", "at_least": 0.7, "rows": 1}, "not decided"),
    ],
)
def test_a_gate_holds_the_value_or_its_interval(gate, result):
    options = GateOptions(**{"task": "click", "metric": "auc", **gate})
    (found,) = decide([options], TASKS)
    assert found["result"] == result
    if result == "failed":
        with pytest.raises(GateError):
            check_passed([found])
    else:
        check_passed([found])


def test_the_error_names_the_failed_gates_and_their_numbers():
    gates = [
        GateOptions(task="click", metric="auc", at_least=0.7),
        GateOptions(task="click", metric="auc", at_least=0.7, by="interval"),
        GateOptions(task="click", metric="auc", at_least=0.65, at_most=0.9, **TABLET),
    ]
    decided = decide(gates, TASKS)
    with pytest.raises(GateError) as error:
        check_passed(decided)
    assert str(error.value) == (
        "The model failed 2 gates, so it is not exported: `evaluation.gates[1]`: auc of click is "
        "0.7200 (0.6800..0.7600), expected at least 0.7; `evaluation.gates[2]`: auc of click, "
        "device=tablet is 0.6000, expected 0.65 to 0.9. Improve the model, or "
        "change the limits."
    )
    assert error.value.exit_status == 4
    console = Console(file=io.StringIO(), width=80)
    print_gates(console, {"gates": decided})
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[2] == ["auc", "of", "click", "1,000", "0.7200", "at", "least", "0.7", "passed"]
    assert [line[-1] for line in lines[2:]] == ["passed", "failed", "failed"]


def test_a_missing_segment_is_refused_unless_rows_allow_it():
    cuts = [cut("device", pa.array(["tablet", "phone"]))]

    def check(**gate):
        check_segments([GateOptions(task="click", metric="auc", at_least=0, **gate)], cuts)

    message = r"gates\[0\].segment`: .* no segment 'device=tablt'. Did you mean 'device=tablet'"
    with pytest.raises(PipelineError, match=message):
        check(segment="device=tablt")
    check(segment="device=tablt", rows=1)
    check(segment="device=tablet")
    check()
