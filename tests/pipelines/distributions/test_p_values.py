"""P-values against SciPy's, and their level under the null."""

import numpy as np
import pytest
from scipy import stats

from pipelines.distributions.p_values import chi_squared, exceeded, kolmogorov_smirnov
from pipelines.distributions.value_counts import Counts

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 31, 60])
def test_the_tail_of_chi_squared_is_scipys(freedom: int) -> None:
    for x in [0.0, 0.1, *freedom * np.array([0.3, 1, 1.7, 4]), 2000.0]:
        expected = stats.chi2.sf(x, freedom)
        np.testing.assert_allclose(exceeded(float(x), freedom), expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("sizes", [(37, 53), (200, 1000), (900, 100_000)])
def test_kolmogorov_smirnov_is_scipys_without_ties(sizes: tuple[int, int]) -> None:
    for shift in (0, 3, 8, 20):
        values = RNG.permutation(sum(sizes))
        first, second = values[: sizes[0]], values[sizes[0] :] + shift * sum(sizes) // 100
        expected = stats.ks_2samp(first, second).pvalue
        found = kolmogorov_smirnov(Counts.of(first), Counts.of(second))
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.01)


def test_chi_squared_is_scipys_and_joins_rare_bins() -> None:
    first, second = np.array([50, 20, 31, 0]), np.array([71, 35, 18, 0])
    table = np.stack([first, second])[:, :3]
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert chi_squared(first, second) == pytest.approx(expected, rel=1e-12)
    rare = np.array([1, 0, 2, 1, 3, 2]), np.array([0, 2, 1, 1, 0, 3])
    joined = np.append(table, [[9], [7]], axis=1)
    expected = stats.chi2_contingency(joined, correction=False).pvalue
    sides = (np.append(side, few) for side, few in zip((first, second), rare, strict=True))
    assert chi_squared(*sides) == pytest.approx(expected, rel=1e-12)
    assert chi_squared(first, np.zeros(4)) == 1


@pytest.mark.parametrize("kind", ["numbers", "ids"])
def test_equal_distributions_are_rejected_at_the_level(kind: str) -> None:
    shares, trials = np.array([0.5, 0.3, 0.15, 0.04, 0.01]), 400
    rejected = 0
    for _ in range(trials):
        if kind == "numbers":
            sides = (Counts.of(RNG.integers(10**6, size=n)) for n in (300, 5000))
            rejected += kolmogorov_smirnov(*sides) < 0.05
        else:
            rejected += chi_squared(*(RNG.multinomial(n, shares) for n in (300, 5000))) < 0.05
    assert stats.binomtest(rejected, trials, 0.05).pvalue > 1e-3
