"""Gates of missing values: their sums, their level, and the hour that they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pipelines.online.canary_gate import CanaryGate, z_of
from pipelines.online.missing_gates import Hours, missing_gates
from pipelines.online.missing_sums import MissingSums, excess, sums_of
from pipelines.report.gate_words import FAILED, PASSED, UNDECIDED

LEVEL = 1e-3


def of_users(count: int, missing: int) -> MissingSums:
    """Users with one row each."""
    return MissingSums(count, count, missing, count, missing, missing)


def made(shares: Callable[[int], tuple[float, float]], users: int = 211) -> Hours:
    """Exact shares of missing values of both versions, by hour."""
    return {
        f"{hour:02}:00": (of_users(users, round(users * a)), of_users(users, round(users * b)))
        for hour, (a, b) in ((hour, shares(hour)) for hour in range(5))
    }


def decided(hours: Hours) -> dict[str, CanaryGate]:
    return {gate.gate: gate for gate in missing_gates("price", hours, LEVEL)}


def test_sums_equal_a_loop_over_users() -> None:
    rng = np.random.default_rng(0)
    users, is_canary, absent = (
        rng.integers(0, 13, 307),
        rng.random(307) < 0.4,
        rng.random(307) < 0.3,
    )
    parts = [(slice(0, 101), "a", absent[:101]), (slice(101, 307), "a", absent[101:])]
    for side, found in enumerate(sums_of(parts, users, is_canary)["a"]):
        inside = is_canary == bool(side)
        rows = [np.sum(inside & (users == user)) for user in range(13)]
        missing = [np.sum(inside & absent & (users == user)) for user in range(13)]
        pairs = [(n, m) for n, m in zip(rows, missing, strict=True) if n]
        expected = [(1, n, m, n * n, n * m, m * m) for n, m in pairs]
        np.testing.assert_array_equal(found, np.sum(expected, axis=0))


@pytest.mark.parametrize("share", [0.004, 0.5, 0.97, 0.995])
def test_chance_exceeds_the_level_no_more_often(share: float) -> None:
    rng = np.random.default_rng(1)
    z, wrong, draws = z_of(0.01), 0, 4000
    for few, many in zip(
        rng.binomial(61, share, draws), rng.binomial(499, share, draws), strict=True
    ):
        test = excess(of_users(61, few), of_users(499, many))
        wrong += test is not None and test.ends(z)[0] > 0
    assert wrong / draws < 0.016  # 0.01, and four standard errors of it


def test_rows_of_a_user_make_the_error_larger() -> None:
    rng = np.random.default_rng(2)
    absent = np.repeat(rng.random(200) < 0.3, 7)
    is_canary = np.repeat(np.arange(200) % 2 == 0, 7)

    def error(users: np.ndarray) -> float:
        stable, canary = sums_of([(slice(None), "a", absent)], users, is_canary)["a"]
        test = excess(canary, stable)
        assert test is not None
        return test.error

    alike = error(np.repeat(np.arange(200), 7))
    np.testing.assert_allclose(alike / error(np.arange(1400)), np.sqrt(7), rtol=0.02)


def test_feature_missing_since_noon_is_found_with_its_hour() -> None:
    gates = decided(made(lambda hour: (0.1, 1.0 if hour >= 3 else 0.1)))
    assert [gate.result for gate in gates.values()] == [FAILED, FAILED]
    assert "at 03:00" in gates["missing"].words
    assert (gates["missing"].canary, gates["missing"].of) == (1.0, "price")


def test_feature_missing_in_both_versions_is_a_jump() -> None:
    gates = decided(made(lambda hour: (0.9, 0.9) if hour >= 3 else (0.1, 0.1)))
    assert gates["missing"].result == PASSED
    assert gates["missing_since"].result == FAILED


def test_a_time_of_day_is_no_jump() -> None:
    gates = decided(made(lambda hour: (0.2 + 0.05 * hour, 0.2 + 0.05 * hour), users=100_003))
    assert {gate.result for gate in gates.values()} == {PASSED}


def test_fewer_missing_values_pass() -> None:
    gates = decided(made(lambda hour: (0.5, 0.1)))
    assert {gate.result for gate in gates.values()} == {PASSED}


def test_hours_of_few_users_are_left_out() -> None:
    gates = decided(made(lambda hour: (0.0, 1.0), users=29))
    assert {gate.result for gate in gates.values()} == {UNDECIDED}
