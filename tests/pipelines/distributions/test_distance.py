"""Distances against SciPy's and against their definitions."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance

from pipelines.distributions.distance import chance, jensen_shannon, judge, psi

RNG = np.random.default_rng(3)
PAIRS = [(RNG.integers(1, 100, 7), RNG.integers(0, 50, 7)) for _ in range(5)]


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_the_divergence_is_scipys_squared(p: np.ndarray, q: np.ndarray) -> None:
    expected = distance.jensenshannon(p, q, base=2) ** 2
    np.testing.assert_allclose(jensen_shannon(p, q), expected, atol=1e-12)
    np.testing.assert_allclose(jensen_shannon(q, p), expected, atol=1e-12)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_index_is_the_sum_of_two_kl_divergences(p: np.ndarray, q: np.ndarray) -> None:
    shares = [(c + 0.5) / (c + 0.5).sum() for c in (p, q)]
    expected = stats.entropy(*shares) + stats.entropy(*shares[::-1])
    np.testing.assert_allclose(psi(p, q), expected)


@pytest.mark.parametrize("bins", [2, 5, 11, 31])
def test_chance_is_the_quantile_of_chi_squared(bins: int) -> None:
    expected = stats.chi2.ppf(0.999, bins - 1) * (1 / 300 + 1 / 700)
    np.testing.assert_allclose(chance(bins, 300, 700), expected, rtol=0.04)
    assert chance(bins, 300, 0) == math.inf


@pytest.mark.parametrize(
    ("index", "by_chance", "status"),
    [
        (0.05, 0.01, "stable"),
        (0.2, 0.01, "watch"),
        (0.3, 0.01, "shifted"),
        (0.3, 0.4, "few rows"),
        (0.3, math.inf, "few rows"),
        (0.05, math.inf, "stable"),
    ],
)
def test_the_limits(index: float, by_chance: float, status: str) -> None:
    assert judge(index, by_chance) == status
