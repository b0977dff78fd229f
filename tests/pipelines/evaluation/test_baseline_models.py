"""The model beside baselines: paired differences against a brute-force draw of groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipelines.evaluation.baseline_models import beside
from pipelines.metrics import auc, gauc, logloss
from recsys_attn.schema import Task

RNG = np.random.default_rng(0)
ROWS, GROUPS = 1009, 53


@pytest.fixture(scope="module")
def predictions() -> pa.Table:
    group = RNG.integers(0, GROUPS, ROWS)
    taste = RNG.normal(size=GROUPS)[group]
    label = (RNG.normal(size=ROWS) + taste > 0).astype(float)
    label[RNG.random(ROWS) < 0.1] = np.nan
    score = 1 / (1 + np.exp(-taste - 0.3 * RNG.normal(size=ROWS)))
    return pa.table(
        {"request": np.arange(ROWS), "group": group, "click/label": label, "click/score": score}
    )


@pytest.fixture(scope="module")
def other(predictions) -> np.ndarray:
    """Scores that are worse than the model's."""
    return np.clip(predictions["click/score"].to_numpy() + 0.4 * RNG.normal(size=ROWS), 0.01, 0.99)


def test_the_interval_is_that_of_drawn_groups(predictions, other) -> None:
    actual = beside(predictions, Task("click"), {"trees": other})["trees"]
    label, group = predictions["click/label"].to_numpy(), predictions["group"].to_numpy()
    known = ~np.isnan(label)
    y, groups = label[known], group[known]
    model, others = predictions["click/score"].to_numpy()[known], other[known]
    assert actual["auc"] == pytest.approx(auc(y, others))
    assert actual["gauc"] == pytest.approx(gauc(y, others, groups)[0])
    assert actual["logloss"] == pytest.approx(logloss(y, others))
    ahead = actual["ahead"]
    assert ahead["metric"] == "auc"
    assert ahead["difference"] == pytest.approx(auc(y, model) - auc(y, others))
    rows_of = [np.flatnonzero(groups == number) for number in range(GROUPS)]
    drawn = []
    for _ in range(400):
        rows = np.concatenate([rows_of[g] for g in RNG.integers(0, GROUPS, GROUPS)])
        drawn.append(auc(y[rows], model[rows]) - auc(y[rows], others[rows]))
    width = np.subtract(*np.quantile(drawn, [0.975, 0.025]))
    low, high = ahead["interval"]
    np.testing.assert_allclose(high - low, width, rtol=0.2)  # of 400 draws
    np.testing.assert_allclose((low + high) / 2, ahead["difference"])


def test_a_task_of_order_alone_is_compared_by_gauc(predictions, other) -> None:
    actual = beside(predictions, Task("click", loss="softmax"), {"trees": other})["trees"]
    assert actual["ahead"]["metric"] == "gauc"
    assert actual["logloss"] is None


def test_one_class_has_nothing_to_compare(predictions, other) -> None:
    zeros = pa.array(np.zeros(ROWS))
    table = predictions.set_column(2, "click/label", zeros)
    assert beside(table, Task("click"), {"trees": other}) == {}
