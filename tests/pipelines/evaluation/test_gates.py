"""Gates pass, fail, or stay undecided."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import GateError, PipelineError
from pipelines.evaluation.gates import check_passed, check_segments, decide, other_evaluations
from pipelines.evaluation.row_cuts import cut
from pipelines.experiment.gate_options import GateOptions
from pipelines.metrics import auc_difference
from pipelines.report.gate_words import print_gates, subject
from pipelines.report.results import Evaluation
from tests.pipelines.report.noisy import scored

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
EVALUATION = Evaluation({"tasks": TASKS}, Path("unread"))
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
    (found,) = decide([options], EVALUATION)
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
    decided = decide(gates, EVALUATION)
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


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Evaluated runs: a good model, one nearly as good, and a bad one."""
    place = tmp_path_factory.mktemp("noisy")
    noise = {"good": 0.3, "alike": 0.35, "bad": 1.5}
    return {
        name: (place / name, scored(place / name / "evaluation", noise[name], seed))
        for seed, name in enumerate(noise)
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "gate", "result"),
    [
        ("good", "bad", {"at_least": 0}, "passed"),
        ("bad", "good", {"at_least": 0, "by": "interval"}, "failed"),
        ("alike", "good", {"at_least": 0}, "failed"),  # a little worse
        ("alike", "good", {"at_least": -0.02, "by": "interval"}, "passed"),
        ("good", "bad", {"metric": "logloss", "at_most": 0, "by": "interval"}, "passed"),
        ("good", "bad", {"metric": "gauc", "at_least": 0, "by": "interval"}, "passed"),
        ("bad", "good", {"segment": "device=b", "at_least": 0, "by": "interval"}, "failed"),
        ("good", "bad", {"segment": "device=b", "at_least": 0.01, "by": "interval"}, "passed"),
        ("bad", "good", {"segment": "device=b", "at_least": 0, "rows": 10**6}, "not decided"),
    ],
)
def test_a_gate_holds_the_difference_to_another_run(noisy, ours, theirs, gate, result):
    (folder, _), evaluation = noisy[theirs], noisy[ours][1]
    options = GateOptions(**{"task": "click", "metric": "auc", "against": folder, **gate})
    (found,) = decide([options], evaluation)
    assert found["result"] == result
    assert subject(found).endswith(f", less that of {theirs}")


def test_the_gated_difference_is_the_paired_one_by_user(noisy):
    gate = GateOptions(task="click", metric="auc", against=noisy["bad"][0], at_least=0)
    (found,) = decide([gate], noisy["good"][1])
    tables = [pq.read_table(noisy[name][1].predictions) for name in ("good", "bad")]
    scores = [table["click/score"].to_numpy() for table in tables]
    labels, users = (tables[0][name].to_numpy() for name in ("click/label", "group"))
    known = ~np.isnan(labels)
    expected = auc_difference(*(each[known] for each in (labels, *scores, users)))
    assert found["value"] == pytest.approx(expected.value, abs=1e-12)
    assert found["interval"] == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_a_run_that_cannot_be_compared_is_named(noisy, tmp_path):
    def gate(folder):
        return GateOptions(task="click", metric="auc", against=folder, at_least=0)

    missing = r"gates\[0\].against`: .*/none is not the folder of an evaluated run"
    with pytest.raises(PipelineError, match=missing):
        other_evaluations([gate(tmp_path / "none")], tmp_path)
    with pytest.raises(PipelineError, match=r"gates\[0\].against`: .* is this run"):
        other_evaluations([gate(tmp_path)], tmp_path)
    scored(tmp_path / "other" / "evaluation", 0.3, split="train")
    with pytest.raises(PipelineError, match=r"gates\[0\].against`: .* on the train rows"):
        decide([gate(tmp_path / "other")], noisy["good"][1])
    for tasks in ({"buy": {}}, {}):
        scored(tmp_path / "tasks" / "evaluation", 0.3, tasks=tasks)
        with pytest.raises(PipelineError, match=r"against`: .* no task in common"):
            decide([gate(tmp_path / "tasks")], noisy["good"][1])
