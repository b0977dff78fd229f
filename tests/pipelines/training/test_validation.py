"""Validation in batches gives the metrics of all rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.monitor import CHANCE, Monitor
from pipelines.metrics import MeansAtK, auc_by_class, task_metrics
from pipelines.training import validation
from pipelines.training.validation import Validation, auc_of_chance
from recsys_attn.schema import Task

SIZES = (7, 1, 40, 12)
TASKS = (Task("click"), Task("buy"))
Part = tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]


def batches(seed: int = 0) -> list[Part]:
    """Labels of two tasks, of which some are not known, rounded scores and requests of three."""
    rng = np.random.default_rng(seed)
    found = []
    for size in SIZES:
        labels = {task: rng.integers(0, 2, size).astype("float32") for task in ("click", "buy")}
        labels["buy"][rng.random(size) < 0.6] = np.nan
        scores = {task: rng.random(size).round(1).astype("float32") for task in labels}
        found.append((labels, scores, np.arange(size) // 3))
    return found


def validated(
    monkeypatch: pytest.MonkeyPatch, found: list[Any], monitor: str | None = None
) -> dict[str, Any]:
    scorer = SimpleNamespace(labelled=lambda feed: iter(found))
    monkeypatch.setattr(validation, "Scorer", lambda model: scorer)
    return Validation(None, None, TASKS, Monitor.of(monitor, TASKS))()


def test_the_metrics_are_those_of_all_rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    metrics = validated(monkeypatch, found)
    for task in ("click", "buy"):
        labels, scores = (np.concatenate([part[i][task] for part in found]) for i in (0, 1))
        expected = task_metrics(labels, scores)
        assert metrics[f"val_{task}_auc"] == expected["auc"]
        for name in ("logloss", "normalised_entropy"):
            assert metrics[f"val_{task}_{name}"] == pytest.approx(expected[name], rel=1e-12)
    aucs = [metrics["val_click_auc"], metrics["val_buy_auc"]]
    errors = [metrics[f"val_{task}_{CHANCE}"] - 0.5 for task in ("click", "buy")]
    mean = np.average(aucs, weights=1 / np.square(errors))
    assert metrics["val_monitored"] == pytest.approx(mean, rel=1e-12)
    assert validated(monkeypatch, found, "auc")["val_monitored"] == pytest.approx(np.mean(aucs))

    unknown = {task: np.full(3, np.nan, "float32") for task in ("click", "buy")}
    scores = {task: np.full(3, 0.5, "float32") for task in unknown}
    assert validated(monkeypatch, [*found, (unknown, scores, np.arange(3))]) == metrics


def test_loss_that_needs_calibration_has_no_logloss(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = (Task("click", loss="focal"), Task("buy", loss="jrc"))
    monkeypatch.setattr(f"{__name__}.TASKS", tasks)
    metrics = validated(monkeypatch, batches(), "auc")
    assert "val_click_logloss" not in metrics
    assert "val_buy_logloss" in metrics
    both = metrics["val_click_auc"], metrics["val_buy_auc"]
    assert metrics["val_monitored"] == pytest.approx(np.mean(both))


def test_random_scores_exceed_the_limit_in_2_5_percent_of_draws() -> None:
    rng, limit = np.random.default_rng(0), auc_of_chance(30, 170)
    found = [auc_by_class(rng.random(30), rng.random(170)) for _ in range(4000)]
    assert np.mean(np.array(found) > limit) == pytest.approx(0.025, abs=0.008)


def test_learned_means_a_monitored_auc_above_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A monitored metric at k, or a ranking loss, counts as learned from the first epoch."""
    labels = {task: np.tile([0.0, 1.0], 20).astype("float32") for task in ("click", "buy")}
    scores = {"click": np.full(40, 0.5, "float32"), "buy": 0.2 + labels["buy"] / 2}
    found = [(labels, scores, np.arange(40) // 4)]
    assert validated(monkeypatch, found)["val_learned"]
    assert validated(monkeypatch, found, "buy")["val_learned"]
    assert not validated(monkeypatch, found, "click")["val_learned"]
    assert validated(monkeypatch, found, "click/ndcg@10")["val_learned"]
    monkeypatch.setattr(f"{__name__}.TASKS", (Task("click", loss="softmax"), Task("buy")))
    metrics = validated(monkeypatch, found, "click")
    assert metrics["val_learned"]
    assert f"val_click_{CHANCE}" not in metrics


def test_metrics_at_k_are_those_of_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    metrics = validated(monkeypatch, found, "buy/map@2")
    top = MeansAtK([2])
    for number, (labels, scores, requests) in enumerate(found):
        top.add(labels["buy"], scores["buy"], requests + 100 * number)
    for name, value in top.metrics().items():
        assert metrics[f"val_buy_{name}"] == pytest.approx(value, rel=1e-12)
    assert metrics["val_monitored"] == metrics["val_buy_map@2"]

    alone = [(labels, scores, np.arange(len(r))) for labels, scores, r in found]
    assert "val_buy_map@10" not in validated(monkeypatch, alone)
    with pytest.raises(PipelineError, match=r"`training.monitor`: MAP@2 of buy is not defined"):
        validated(monkeypatch, alone, "buy/map@2")


def test_non_finite_scores_are_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    found[2][1]["click"][3] = np.inf
    with pytest.raises(PipelineError, match=r"scores of 'click' are not finite"):
        validated(monkeypatch, found)


def test_noise_is_that_of_the_difference_to_the_best_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving single requests out (the jackknife) shows the same error of the weighted mean."""
    calls = [batches()]
    for seed in (1, 2):  # other scores of the same rows
        rng = np.random.default_rng(seed)
        noisy = [
            (labels, {t: (s + rng.random(s.size)) / 2 for t, s in scores.items()}, r)
            for labels, scores, r in calls[0]
        ]
        calls.append(noisy)
    stream = iter(calls)
    scorer = SimpleNamespace(labelled=lambda feed: iter(next(stream)))
    monkeypatch.setattr(validation, "Scorer", lambda model: scorer)
    monitor = Monitor.of("auc", TASKS)
    validate = Validation(None, None, TASKS, monitor)
    epochs = [validate() for _ in calls]
    assert epochs[0]["val_noise"] == 0.0

    best = int(np.argmax([epoch["val_monitored"] for epoch in epochs[:2]]))
    without = [_mean_auc(calls[2], i) - _mean_auc(calls[best], i) for i in range(_requests())]
    error = np.sqrt((len(without) - 1) * np.var(without))
    assert epochs[2]["val_noise"] == pytest.approx(error, rel=0.15)


def _requests() -> int:
    return sum(-(-size // 3) for size in SIZES)


def _mean_auc(parts: list[Part], left_out: int) -> float:
    """The plain mean AUC of the tasks without one request."""
    begins = np.cumsum([0, *(-(-size // 3) for size in SIZES)])
    requests = np.concatenate([begin + part[2] for begin, part in zip(begins, parts, strict=False)])
    aucs = []
    for task in ("click", "buy"):
        labels, scores = (np.concatenate([part[i][task] for part in parts]) for i in (0, 1))
        rows = requests != left_out
        ones, zeros = (scores[rows & (labels == label)] for label in (1, 0))
        aucs.append(auc_by_class(ones, zeros))
    return float(np.mean(aucs))


def test_task_of_one_class_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    for labels, _, _ in found:
        labels["buy"][:] = 0
    with pytest.warns(UserWarning, match="AUC"):
        metrics = validated(monkeypatch, found)
    assert metrics["val_monitored"] == metrics["val_click_auc"]
