"""Metrics of segments against loops over pairs, and how often equal segments seem to differ."""

import numpy as np
import pytest

from pipelines.metrics import auc, calibration, logloss
from pipelines.metrics.segment_metrics import SegmentMetrics
from tests.pipelines.metrics.samples import sample
from tests.pipelines.metrics.test_intervals import influence_by_loop

Z = 1.959963985


def test_metrics_and_differences_equal_those_of_a_loop():
    labels, scores, users = sample(13, rows=421)
    scores = np.clip(scores, 0.05, 0.95)
    inside = (users + np.arange(421)) % 3 == 0  # but for one, users have rows on both sides
    found = SegmentMetrics(labels, scores, users).of(inside)
    sides = [(labels[rows], scores[rows], users[rows]) for rows in (inside, ~inside)]
    (y, z, u), (y_rest, z_rest, _) = sides
    assert (found["rows"], found["positives"]) == (y.size, y.sum())
    expected = [metric(y, z) for metric in (auc, logloss, calibration)]
    assert [found[n] for n in ("auc", "logloss", "calibration")] == pytest.approx(expected)
    assert found["auc_difference"] == pytest.approx(auc(y, z) - auc(y_rest, z_rest))
    excess, excess_rest = (
        logloss(a, b) + np.mean(b * np.log(b) + (1 - b) * np.log(1 - b))
        for a, b in ((y, z), (y_rest, z_rest))
    )
    assert found["excess_logloss"] == pytest.approx(excess)
    assert found["excess_logloss_difference"] == pytest.approx(excess - excess_rest)

    def half(moved):
        return Z * np.sqrt(moved.size / (moved.size - 1) * np.square(moved).sum())

    def width(name):
        return np.diff(found["intervals"][name])[0] / 2

    assert width("auc") == pytest.approx(half(influence_by_loop(y, z, u)))
    moved = np.zeros((2, 31))
    for row, side in zip(moved, sides, strict=True):
        row[np.unique(side[2])] = influence_by_loop(*side)
    assert width("auc_difference") == pytest.approx(half(moved[0] - moved[1]))
    by_user = []
    for labels_, scores_, users_ in sides:
        losses = -np.log(np.where(labels_ == 1, scores_, 1 - scores_))
        excesses = losses + scores_ * np.log(scores_) + (1 - scores_) * np.log(1 - scores_)
        for each in (losses, excesses):
            moved_ = (each - each.mean()) / each.size
            by_user.append(np.array([moved_[users_ == one].sum() for one in range(31)]))
    assert width("logloss") == pytest.approx(half(by_user[0][np.unique(u)]))
    assert width("excess_logloss_difference") == pytest.approx(half(by_user[1] - by_user[3]))


def test_users_without_rows_in_a_segment_leave_its_interval():
    labels, scores, users = sample(rows=421)
    inside = users < 20
    found = SegmentMetrics(labels, scores, users).of(inside)
    alone = SegmentMetrics(labels[inside], scores[inside], users[inside])
    whole = alone.of(np.ones(inside.sum(), bool))
    assert found["clusters"] == whole["clusters"] == 20
    assert found["intervals"]["auc"] == pytest.approx(whole["intervals"]["auc"])
    assert whole["auc_difference"] is whole["intervals"]["auc_difference"] is None


def test_equal_segments_differ_as_often_as_stated():
    rng = np.random.default_rng(0)
    users, sets = np.repeat(np.arange(150), 12), 600
    rejected = {"auc": 0, "excess_logloss": 0}
    for _ in range(sets):
        known, hidden = (rng.normal(size=150)[users] for _ in range(2))
        score = 1 / (1 + np.exp(-known))
        label = (rng.random(users.size) < 1 / (1 + np.exp(-known - 2 * hidden))).astype(float)
        inside = rng.random(users.size) < 0.3
        found = SegmentMetrics(label, score, users).of(inside)["intervals"]
        for name in rejected:
            low, high = found[f"{name}_difference"]
            rejected[name] += not low <= 0 <= high
    shares = {name: count / sets for name, count in rejected.items()}
    print(f"rejected: {shares}")
    for share in shares.values():
        assert 0.03 <= share <= 0.07


def test_right_probabilities_have_no_excess_at_any_rate():
    rng = np.random.default_rng(0)
    inside = np.arange(40_000) < 10_000
    scores = rng.uniform(0.05, 0.2, inside.size) + 0.4 * inside
    labels = (rng.random(inside.size) < scores).astype(float)
    metrics = SegmentMetrics(labels, scores, np.arange(inside.size))
    found, rest = metrics.of(inside), metrics.of(~inside)
    assert found["logloss"] > rest["logloss"] + 0.2
    for each in (found, rest):
        low, high = each["intervals"]["excess_logloss"]
        assert low < 0 < high
    assert abs(found["excess_logloss_difference"]) < 0.01


@pytest.mark.parametrize(
    ("rows", "positives", "clusters", "few"),
    [
        (200, 20, 30, False),
        (199, 20, 30, True),
        (200, 19, 30, True),
        (200, 181, 30, True),
        (200, 20, 29, True),
    ],
)
def test_few_rows_positives_negatives_or_users_are_marked(rows, positives, clusters, few):
    labels = (np.arange(400) % 200 < positives).astype(float)
    users = np.where(np.arange(400) < 200, np.arange(400) % clusters, np.arange(400))
    metrics = SegmentMetrics(labels, np.linspace(0.1, 0.9, 400), users)
    assert metrics.of(np.arange(400) < rows)["few"] is few


def test_undefined_metrics_of_a_segment_are_none():
    metrics = SegmentMetrics([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4])
    negatives = metrics.of(np.array([True, True, False, False]))
    assert negatives["auc"] is negatives["auc_difference"] is negatives["calibration"] is None
    assert negatives["logloss"] > 0
    nothing = metrics.of(np.zeros(4, bool))
    assert nothing["rows"] == 0
    assert nothing["logloss"] is nothing["intervals"]["logloss"] is None
    ranked = SegmentMetrics([0, 1, 0, 1], [7, 8, 9, -3], [1, 2, 3, 4], probabilities=False)
    found = ranked.of(np.array([True, True, False, False]))
    assert found["auc"] == 1
    assert (
        found["logloss"] is found["excess_logloss_difference"] is found["calibration_off"] is None
    )
