"""Tasks and experts that have died are named at the end of a training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.storage.dataset import DataSplit
from pipelines.training import dead_units
from pipelines.training.dead_units import dead_experts, dead_tasks
from recsys_attn.schema import Task

CLICK, BUY = Task("click"), Task("buy")


def epoch(auc: float, **others: float) -> dict[str, Any]:
    beside = {"val_buy_auc": 0.7, "val_buy_auc_of_chance": 0.54}
    return {"val_click_auc": auc, "val_click_auc_of_chance": 0.54, **beside, **others}


@pytest.mark.parametrize(
    ("epochs", "message"),
    [
        ([epoch(0.5)], "as if all rows had the same score"),
        ([epoch(0.54), epoch(0.497)], "its AUC was never above 0.540"),
        ([epoch(0.55), epoch(0.497)], None),
        ([], None),
    ],
)
def test_task_that_learned_nothing_is_named(
    epochs: list[dict[str, Any]], message: str | None
) -> None:
    found = list(dead_tasks([CLICK, BUY], epochs))
    assert len(found) == (message is not None)
    assert all(str(message) in sentence for sentence in found)


def test_tasks_with_a_ranking_loss_are_not_judged_by_auc() -> None:
    """They are named only if all scores are equal."""
    tasks, order = [Task("click", loss="softmax")], {"val_click_auc": 0.49}
    assert list(dead_tasks(tasks, [order])) == []
    (sentence,) = dead_tasks(tasks, [{"val_click_auc": 0.5}])
    assert "as if all rows had the same score" in sentence


@pytest.mark.parametrize("metrics", [epoch(0.5), epoch(0.497)])
def test_weights_are_advised_where_several_tasks_have_them(metrics: dict[str, Any]) -> None:
    (alone,), (beside,) = (list(dead_tasks(tasks, [metrics])) for tasks in ([CLICK], [CLICK, BUY]))
    assert "task_weights" in beside
    assert "weight" not in alone


def test_expert_that_no_task_uses_is_named(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the mean over all pieces of the sampled rows."""
    fitted = FittedFeatures.load(prepared / "features")
    valid = Feed(DataSplit(prepared / "data" / "valid"), fitted, "request_id")
    monkeypatch.setattr(dead_units, "ROWS", 300)  # two pieces
    shares = {"gate/click": [0.9, 0.095, 0.005], "gate/buy": [0.5, 0.495, 0.005]}
    seen: list[int] = []

    def explain(inputs: dict[str, Any]) -> tuple[None, dict[str, Any]]:
        rows = len(inputs["item_id"])
        seen.append(rows)
        gates = {name: np.tile(share, (rows, 1, 1)) for name, share in shares.items()}
        return None, {"attention/history": np.zeros((rows, 1, 5)), **gates}

    tower = SimpleNamespace(has_experts=True)
    model: Any = SimpleNamespace(tower=tower, explain=explain)
    (sentence,) = dead_experts(model, valid, seed=3)
    assert sentence.startswith("Expert 3 has less than 1% of every task: it has died.")
    assert len(seen) == 2
    shares["gate/buy"][2] = 0.02
    assert list(dead_experts(model, valid, seed=3)) == []
    without: Any = SimpleNamespace(tower=SimpleNamespace(has_experts=False))
    assert list(dead_experts(without, valid, seed=3)) == []
