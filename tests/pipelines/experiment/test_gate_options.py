"""Gates that can decide nothing are refused with the experiment."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from tests.support.experiments import load

GATE = {"task": "click", "metric": "auc", "at_least": 0.7}
SEGMENTS = ["device", ["country", "device"]]


def gated(folder: Path, *changes: tuple[str, str], **gate: Any) -> Any:
    values = {**GATE, **gate}
    gates = [GATE, {key: value for key, value in values.items() if value is not None}]
    overrides = {"evaluation__segments": SEGMENTS, "evaluation__gates": gates}
    return load(folder, *changes, **overrides).evaluation.gates[1]


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"task": "clik"}, r"gates\[1\].task` names 'clik'.*Did you mean 'click'"),
        ({"metric": "acu"}, r"gates\[1\].metric` names 'acu'.*Did you mean 'auc'"),
        ({"metric": "ndcg@5"}, r"names 'ndcg@5'; expected one of .*Did you mean 'ndcg@10'"),
        ({"metric": "auc_difference"}, r"names 'auc_difference'; expected one of 'auc'"),
        (
            {"metric": "gauc", "segment": "device=tablet"},
            r"names 'gauc'; expected one of 'auc', 'logloss'",
        ),
        (
            {"segment": "devise=tablet"},
            r"gates\[1\].segment` names 'devise=tablet'.*'device=...' or "
            r"'country=..., device=...'.* Did you mean 'device=...'",
        ),
        ({"segment": "device=a, country=b, x"}, None),  # a value may hold anything
        ({"segment": "country=DE"}, r"names 'country=DE'; expected a segment"),
        ({"metric": "ndcg@10", "by": "interval"}, r"gates\[1\].by`: 'ndcg@10' has no interval"),
        ({"at_least": None}, r"gates\[1\]`: a gate needs `at_least`, `at_most` or both"),
        ({"at_most": 0.6}, r"at_least=0.7 and at_most=0.6"),
        ({"minimum": 3}, r"gates\[1\].minimum` is not a known key"),
        ({"segment": "country=DE, device=tablet", "metric": "excess_logloss_difference"}, None),
        ({"segment": "country, device=(other)", "by": "interval", "rows": 100}, None),
        ({"metric": "normalised_entropy", "against": "runs/a", "by": "interval"}, None),
        ({"metric": "ici", "against": "runs/a"}, r"names 'ici'; expected one of 'auc', 'gauc'"),
        (
            {"metric": "gauc", "against": "runs/a", "segment": "device=a"},
            r"names 'gauc'; expected one of 'auc', 'logloss'",
        ),
    ],
)
def test_a_gate_names_what_there_is(
    tmp_path: Path, gate: dict[str, Any], message: str | None
) -> None:
    if message is None:
        assert gated(tmp_path, **gate).segment == gate.get("segment")
        return
    with pytest.raises(PipelineError, match=message):
        gated(tmp_path, **gate)


def test_scores_of_a_ranking_loss_have_no_gate_of_probabilities(tmp_path: Path) -> None:
    bpr = ('name = "click"\n', 'name = "click"\nloss = "bpr"\n')
    assert gated(tmp_path, bpr, metric="gauc").metric == "gauc"
    for change in ({"metric": "calibration"}, {"metric": "logloss", "segment": "device=x"}):
        with pytest.raises(PipelineError, match=r"expected one of 'auc'"):
            gated(tmp_path, bpr, **change)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([["a", "b", "c"]], "pairs of two different columns"),
        ([["a", "a"]], "pairs of two different columns"),
        (["a", ["b", "c"], "a"], "each column or pair once"),
    ],
)
def test_wrong_segments_are_refused(tmp_path: Path, segments: list[Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, evaluation__segments=segments)


def test_layer_wise_relevance_needs_rows(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"layer_wise_relevance.*relevance_rows=0"):
        load(tmp_path, evaluation__layer_wise_relevance=True, evaluation__relevance_rows=0)
