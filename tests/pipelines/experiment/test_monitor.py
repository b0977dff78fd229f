"""`training.monitor` names a task, a metric, or both."""

import pytest

from pipelines.experiment.monitor import Monitor
from recsys_attn.schema import Task

TASKS = (Task("click"), Task("buy"))
METRICS = {
    "val_click_auc": 0.5,
    "val_buy_auc": 0.75,
    "val_click_auc_of_chance": 0.52,
    "val_buy_auc_of_chance": 0.54,
    "val_click_ndcg@5": 0.1,
    "val_buy_ndcg@5": 1,
}


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        (None, 0.55, "weighted AUC"),
        ("auc", 0.625, "mean AUC"),
        ("buy", 0.75, "AUC of buy"),
        ("ndcg@5", 0.55, "mean NDCG@5"),
        ("click/ndcg@5", 0.1, "NDCG@5 of click"),
    ],
)
def test_monitored_number(text: str | None, value: float, shown: str) -> None:
    monitor = Monitor.of(text, TASKS)
    assert monitor.value(METRICS) == pytest.approx(value)
    assert str(monitor) == shown
    assert monitor.places == (5 if "5" in shown else 10)


def test_weights_are_the_inverse_variances_of_the_tasks() -> None:
    """Four times the precision counts four times as much, and a class alone tells nothing."""
    monitor = Monitor.of(None, TASKS)
    assert monitor.weights(METRICS) == pytest.approx({"click": 0.8, "buy": 0.2})
    alone = {"val_click_auc": 0.5, "val_click_auc_of_chance": 0.52, "val_buy_auc": float("nan")}
    assert (monitor.weights(alone), monitor.value(alone)) == ({"click": 1.0}, 0.5)
    assert str(Monitor.of(None, TASKS[:1])) == "AUC of click"


def test_task_without_probabilities_is_monitored_by_ndcg() -> None:
    monitor = Monitor.of(None, (Task("click", loss="bpr"), Task("buy")))
    assert monitor.metrics == {"click": "ndcg@10", "buy": "auc"}
    assert monitor.ranked == ["click"]


@pytest.mark.parametrize(
    "text", ["", "clik", "ndcg", "ndcg@0", "view/auc", "click/logloss", "/auc"]
)
def test_unknown_monitor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"`training.monitor` names '{text}'; expected a task"):
        Monitor.of(text, TASKS)
