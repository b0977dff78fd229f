"""Lines on baseline models, and advice, from the content of metrics.json."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.advice import advice
from pipelines.report.baseline_words import standings


def _ahead(value: float, low: float, high: float, metric: str = "auc") -> dict[str, Any]:
    return {"ahead": {"metric": metric, "difference": value, "interval": [low, high]}}


BEHIND = _ahead(-0.0114, -0.0173, -0.0062)
METRICS: dict[str, Any] = {
    "model": "attention_ranker",
    "split": "test",
    "tasks": {"click": {}},
    "settings": {"data.split.valid": 0.1},
    "features": [{"name": "item", "kind": "categorical", "table_rows": 400}],
    "splits": {"train": 1000},
}


def test_a_line_says_how_far_the_model_is_ahead() -> None:
    level, ahead = _ahead(0.001, -0.002, 0.003), _ahead(0.02, 0.01, 0.03)
    several = {"linear": ahead, "trees": level, "forest": BEHIND}
    metrics = {"tasks": {"click": {"baseline_models": several}, "buy": {}}}
    assert list(standings(metrics)) == [
        "click, AUC beside models on the same columns: ahead of linear by 0.0200 (0.0100 to "
        "0.0300); level with trees (-0.0020 to +0.0030); behind forest by 0.0114 (0.0062 to 0.0173)"
    ]


def test_an_undefined_interval_is_said() -> None:
    one = {"ahead": {"metric": "gauc", "difference": 0.1, "interval": None}}
    metrics = {"tasks": {"click": {"baseline_models": {"trees": one}}}}
    (line,) = standings(metrics)
    assert line.endswith("+0.1000 to trees, without an interval")
    assert advice(METRICS | metrics) == []


def test_metrics_of_an_earlier_version_have_no_advice() -> None:
    assert advice({"model": "mlp", "split": "test", "tasks": {"click": {"auc": 0.7}}}) == []


def test_a_model_behind_a_baseline_is_advised_to_try_others() -> None:
    tasks = {"click": {"baseline_models": {"trees": BEHIND}}}
    (sentence,) = advice(METRICS | {"tasks": tasks})
    assert "behind trees (click)" in sentence
    assert "`recsys-attn compare RUN --try mlp,deepfm`" in sentence
    sequence = METRICS | {"tasks": tasks, "features": [{"name": "past", "kind": "sequence"}]}
    assert "--try mlp,din,deepfm`" in advice(sequence)[0]


def test_unknown_ids_are_advised_of_unless_they_are_described() -> None:
    drift = [
        {"feature": "item", "kind": "categorical", "unknown": [0.0, 0.72]},
        {"feature": "user", "kind": "categorical", "unknown": [0.0, 0.1]},
        {"feature": "price", "kind": "numeric", "unknown": None},
    ]
    (sentence,) = advice(METRICS | {"drift": drift})
    assert sentence.startswith("72% of the test rows have a value of `item`")
    for settings in (
        {"data.aggregates.views.by": "item"},
        {"data.aggregates.views.by": ["user", "item"]},
        {"data.items.key": "item"},
    ):
        assert advice(METRICS | {"drift": drift, "settings": settings}) == []


@pytest.mark.parametrize(("values", "losses"), [((0.8, 0.75), (0.5, 0.4))])
def test_validation_that_falls_soon_is_advised_of(values, losses) -> None:
    epochs = [{"loss": x, "val_monitored": v} for x, v in zip(losses, values, strict=True)]
    kept = {"epoch": 1, "epochs": 2, "monitor": "AUC of click"}
    fallen = METRICS | {"kept": kept, "training": epochs}
    (sentence,) = advice(fallen)
    assert "fell by 0.050 while the loss fell on" in sentence
    assert '`model.exclude = ["item"]`' in sentence
    assert "exclude" not in advice(fallen | {"splits": {"train": 100_000}})[0]
    assert advice(fallen | {"training": [epochs[0], {"loss": 0.6, "val_monitored": 0.75}]}) == []
    assert advice(fallen | {"training": [epochs[0], {"loss": 0.4, "val_monitored": 0.79}]}) == []


def test_few_validation_positives_are_advised_of() -> None:
    labels = {
        "click": {"valid": [3000, 900]},
        "buy": {"valid": [900, 127]},
        "no": {"valid": [9, 0]},
    }
    (sentence,) = advice(METRICS | {"labels": labels})
    assert sentence.startswith("The validation rows have 127 positives of `buy`, so")
    assert "`data.split.valid`" in sentence
    by_column = METRICS | {"labels": labels, "settings": {}}
    assert advice(by_column) == []
