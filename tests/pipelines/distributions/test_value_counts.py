"""Counts by key against sorting all values; keys of numbers keep their order."""

import numpy as np
import pytest

from pipelines.distributions.value_counts import Counts, key_numbers, number_keys

RNG = np.random.default_rng(5)
VALUES = {
    "ties": RNG.integers(0, 7, 1009),
    "wide": RNG.integers(-(10**6), 10**6, 1009),
    "one value": np.full(13, 3),
    "one": np.array([5]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
def test_quantiles_are_values_of_the_data(name: str, share: float) -> None:
    values = VALUES[name]
    expected = np.quantile(values, share, method="inverted_cdf")
    assert Counts.of(values).quantile_key(share) == expected


@pytest.mark.parametrize("name", VALUES)
def test_cut_counts_every_value_once(name: str) -> None:
    counts, edges = Counts.of(VALUES[name]), np.array([-500, 0, 3, 4])
    expected = np.bincount(np.digitize(VALUES[name], edges), minlength=5)
    np.testing.assert_array_equal(counts.cut(edges), expected)
    tenths = counts.cut(counts.edges(10))
    assert tenths.sum() == len(VALUES[name])
    assert (tenths[:-1] > 0).all()


def test_number_keys_keep_order_and_precision() -> None:
    largest = np.finfo("float32").max
    spread = RNG.normal(size=997) * 10.0 ** RNG.integers(-30, 30, 997)
    numbers = np.sort(np.concatenate([[-largest, 0, largest, 1e-45], spread]).astype("float32"))
    keys = number_keys(numbers)
    assert (np.diff(keys) >= 0).all()
    assert keys.min() >= 0
    assert keys.max() < 2**20
    normal = np.abs(numbers) > 1e-37
    np.testing.assert_allclose(key_numbers(keys)[normal], numbers[normal], rtol=2**-11)
    whole = np.arange(-4096, 4097)
    np.testing.assert_array_equal(key_numbers(number_keys(whole)), whole)
    assert len(np.unique(number_keys(whole))) == len(whole)
    assert number_keys(np.array([-0.0])) == number_keys(np.array([0.0]))
