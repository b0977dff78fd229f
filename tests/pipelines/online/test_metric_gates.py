"""Gates of metrics: their differences and errors, and what they decide."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.metrics import auc_difference
from pipelines.metrics.intervals import difference, mean_influence
from pipelines.metrics.probability import row_losses
from pipelines.online.canary_gate import CanaryGate, z_of
from pipelines.online.metric_gates import TwoVersions, metric_gates
from pipelines.report.gate_words import FAILED, PASSED, UNDECIDED
from serving.state.columns.missing import MISSING_INT

ROWS, USERS = 997, 89


def draws(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, calibrated scores, others with noise, and users, some missing."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-0.5, 1, ROWS)
    scores = 1 / (1 + np.exp(-logit))
    labels = (rng.random(ROWS) < scores).astype(np.float32)
    others = 1 / (1 + np.exp(-logit - rng.normal(0, 1, ROWS)))
    users = rng.integers(0, USERS, ROWS)
    users[rng.random(ROWS) < 0.05] = MISSING_INT
    return labels, scores, others, users


def beside(
    labels: np.ndarray, stable: np.ndarray, canary: np.ndarray, users: np.ndarray
) -> TwoVersions:
    """Both versions score the same rows, each in rows of its own."""
    rows = labels.size
    twice = np.repeat([False, True], rows)
    scores = np.concatenate([stable, canary])
    return TwoVersions(np.tile(labels, 2), scores, np.tile(users, 2), twice)


def of(rows: TwoVersions, level: float = 0.025) -> dict[str, CanaryGate]:
    return {gate.gate: gate for gate in metric_gates("click", rows, level)}


def test_same_rows_give_the_paired_difference() -> None:
    labels, stable, canary, users = draws(1)
    known = users != MISSING_INT  # a row without a user is a cluster of its own in each version
    labels, stable, canary, users = (a[known] for a in (labels, stable, canary, users))
    gates = of(beside(labels, stable, canary, users))
    paired = auc_difference(labels, canary, stable, users)
    ends = gates["auc"].interval or ()
    np.testing.assert_allclose(gates["auc"].difference or 0, -paired.value, rtol=1e-9)
    np.testing.assert_allclose([*ends], [-paired.high, -paired.low], rtol=1e-6)
    codes = np.unique(users, return_inverse=True)[1]
    losses = (mean_influence(row_losses(labels == 1, one), codes) for one in (canary, stable))
    expected = difference(*losses)
    ends = gates["logloss"].interval or ()
    np.testing.assert_allclose([*ends], [expected.low, expected.high], rtol=1e-6)


def test_gauc_is_moved_by_users_with_both_classes() -> None:
    labels, stable, canary, users = draws(2)
    gate = of(beside(labels, stable, canary, users))["gauc"]

    def of_users(scores: np.ndarray) -> tuple[float, np.ndarray]:
        aucs, weights = np.zeros(USERS), np.zeros(USERS)
        for user in range(USERS):
            y, z = labels[users == user], scores[users == user]
            pairs = [(a > b) + 0.5 * (a == b) for a in z[y == 1] for b in z[y == 0]]
            if pairs:
                aucs[user], weights[user] = np.mean(pairs), y.size
        mean = float((aucs * weights).sum() / weights.sum())
        return mean, weights * (aucs - mean) / weights.sum()

    (ours, moved), (theirs, moved_theirs) = of_users(canary), of_users(stable)
    alone = 2 * np.count_nonzero(users == MISSING_INT)  # clusters that move nothing
    count = np.unique(users[users != MISSING_INT]).size + alone
    error = np.sqrt(count / (count - 1) * np.square(moved - moved_theirs).sum())
    assert gate.difference is not None
    assert gate.interval is not None
    np.testing.assert_allclose(gate.difference, theirs - ours, rtol=1e-9)
    np.testing.assert_allclose(gate.interval[1] - gate.difference, z_of(0.025) * error, rtol=1e-6)


def test_equal_scores_of_the_same_rows_pass() -> None:
    labels, stable, _, users = draws(3)
    gates = of(beside(labels, stable, stable, users))
    assert {gate.result for gate in gates.values()} == {PASSED}
    assert all(gate.difference == 0 for gate in gates.values())


def test_a_worse_canary_fails_and_a_better_one_passes() -> None:
    labels, good, bad, users = draws(4)
    worse, better = of(beside(labels, good, bad, users)), of(beside(labels, bad, good, users))
    assert worse["auc"].result == worse["logloss"].result == FAILED
    assert {gate.result for gate in better.values()} == {PASSED}
    assert "worse by" in worse["auc"].words


@pytest.mark.parametrize("times", [0.6, 1.6])
def test_calibration_fails_on_either_side_of_one(times: float) -> None:
    _, scores, _, users = draws(5)
    scores = scores / 2  # so that too high ones are below 1
    labels = (np.random.default_rng(5).random(ROWS) < scores).astype(np.float32)
    scores *= labels.mean() / scores.mean()
    scores = np.minimum(scores, 0.6)
    worse = of(beside(labels, scores, scores * times, users))["calibration"]
    better = of(beside(labels, scores * times, scores, users))["calibration"]
    assert (worse.result, better.result) == (FAILED, PASSED)
    assert "further from 1" in worse.words


def test_few_rows_are_not_decided() -> None:
    labels, good, bad, users = draws(6)
    rows = beside(labels, good, bad, users)
    few = np.where(np.arange(2 * ROWS) < ROWS + 150, rows.labels, np.nan)  # of the canary
    for some in (few, np.zeros_like(few)):
        gates = of(TwoVersions(some, rows.scores, rows.groups, rows.is_canary))
        assert {gate.result for gate in gates.values()} == {UNDECIDED}
        assert {gate.interval for gate in gates.values()} == {None}


def test_scores_that_are_no_probabilities_have_two_gates() -> None:
    labels, good, bad, users = draws(7)
    rows = beside(labels, 10 * good, 10 * bad, users)
    order = TwoVersions(rows.labels, rows.scores, rows.groups, rows.is_canary, False)
    assert list(of(order)) == ["auc", "gauc"]
