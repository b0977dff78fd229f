"""Random integers below any size are equally likely."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.random_integers import MOST, random_below

DRAWS = 100_003


@pytest.mark.parametrize("size", [3, 8_000_009, 900_000_000, 1_500_000_000, MOST])
def test_every_tenth_is_drawn_as_often(size: int) -> None:
    drawn = ops.convert_to_numpy(random_below((DRAWS,), size, keras.random.SeedGenerator(5)))
    assert drawn.min() >= 0
    assert drawn.max() < size
    tenths = np.minimum(size, 10)
    found = np.bincount(drawn.astype("int64") * tenths // size, minlength=tenths)
    np.testing.assert_allclose(found, DRAWS / tenths, rtol=0.05)


def test_sizes_differ_by_row_and_may_be_zero() -> None:
    sizes = np.array([[0], [1], [5], [2**30]], "int32")
    drawn = ops.convert_to_numpy(random_below((4, 999), sizes, keras.random.SeedGenerator(5)))
    np.testing.assert_array_equal(drawn[:2], 0)
    np.testing.assert_array_equal(np.unique(drawn[2]), np.arange(5))
    assert drawn[3].max() > 0.99 * 2**30


def test_a_size_follows_the_definition() -> None:
    """`floor(size u)`, in whole numbers of any length."""
    digits = iter(np.random.default_rng(0).integers(0, 2**15, (3, 997)).astype("int32"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.random, "randint", lambda *_, **__: ops.convert_to_tensor(next(digits)))
        found = ops.convert_to_numpy(random_below((997,), MOST, None))
    low, middle, high = np.random.default_rng(0).integers(0, 2**15, (3, 997)).astype(object)
    expected = (low + middle * 2**15 + high * 2**30) * MOST // 2**45
    np.testing.assert_array_equal(found, expected.astype("int64"))
