"""Gates of experts: shares, segments and warnings."""

import numpy as np
import pytest

from pipelines.audit.experts import apart, by_segment, task_gates, warnings_of


@pytest.fixture
def gates() -> np.ndarray:
    return np.random.default_rng(0).dirichlet([2.0, 1.0, 1.0], 90)


def test_shares_are_means_with_an_interval_of_clusters(gates):
    found = task_gates(gates, np.arange(90) // 3)
    np.testing.assert_allclose([share.value for share in found.shares], gates.mean(axis=0))
    assert found.shares[0].clusters == 30
    assert found.first.sum() == pytest.approx(1)
    assert 0 < found.variation < 1


def test_limits_of_spread_and_variation():
    equal, alone = np.full((20, 4), 0.25), np.eye(4)[np.arange(20) % 4]
    assert task_gates(equal, np.arange(20)).spread == pytest.approx(1)
    assert task_gates(equal, np.arange(20)).variation == pytest.approx(0)
    assert task_gates(alone, np.arange(20)).spread == pytest.approx(0)
    assert apart(alone, np.roll(alone, 1, axis=1)) == pytest.approx(1)


def test_segments_are_means_of_their_rows(gates):
    codes = np.arange(90) % 4
    codes[codes == 2] = 0
    found = by_segment(gates, codes, 4)
    np.testing.assert_allclose(found[0], gates[codes == 0].mean(axis=0))
    assert np.isnan(found[2]).all()


def test_a_dead_expert_a_collapsed_gate_and_equal_gates_are_named(gates):
    dead = np.concatenate([gates, np.zeros((90, 1))], axis=1)
    one = np.tile([1.0, 0, 0, 0], (90, 1))
    (warning,) = warnings_of({"click": dead, "buy": dead[::-1]})
    assert "Expert 4" in warning
    assert "died" in warning
    found = list(warnings_of({"click": dead, "buy": one}))
    assert any("'buy' uses expert 1 alone" in each for each in found)
    same = list(warnings_of({"click": gates, "buy": gates}))
    assert len(same) == 1
    assert "'click' and 'buy' have the same gates" in same[0]
    assert list(warnings_of({"click": gates, "buy": gates[::-1]})) == []


def test_a_gate_that_hardly_chooses_is_named(gates):
    even = 0.95 / 3 + 0.05 * gates
    (warning,) = warnings_of({"click": even, "buy": gates})
    assert "'click' hardly chooses" in warning


def test_experts_with_the_same_outputs_are_named(gates):
    likeness = np.eye(3)
    likeness[0, 2] = likeness[2, 0] = 0.95
    (warning,) = warnings_of({"click": gates}, likeness)
    assert "Experts 1 and 3 have" in warning
    (warning,) = warnings_of({"click": gates}, np.ones((3, 3)))
    assert "All 3 experts have" in warning
