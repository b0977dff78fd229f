"""Weightings equal loops over rows, and a row with nothing allowed is zeros."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.attention import weightings
from tests.support import reference

SHAPE = (2, 3, 5, 7)
REFERENCES = {"softmax": reference.softmax_weights, "identity": reference.identity_weights}


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=3, size=SHAPE).astype("float32")


@pytest.mark.parametrize("axes", [None, SHAPE, (2, 1, 5, 7), (2, 1, 1, 7)], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_weights_equal_a_loop_over_rows(
    name: str, axes: tuple[int, ...] | None, logits: np.ndarray
) -> None:
    allowed = None if axes is None else np.random.default_rng(1).random(axes) < 0.5
    weights = weightings.get(name)(logits, allowed=allowed)
    everywhere = None if allowed is None else np.broadcast_to(allowed, SHAPE)
    expected = REFERENCES[name](logits.astype("float64"), everywhere)
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("scale", [1e4, 1e30], ids=str)
def test_softmax_survives_large_logits_and_empty_rows(
    scale: float, logits: np.ndarray, training: bool
) -> None:
    allowed = np.random.default_rng(1).random(SHAPE) < 0.5
    allowed[0] = False
    logits[0, 0] = -1e8  # times the scale, far enough from 0 to be seen next to what a mask adds
    weights = weightings.Softmax()(logits * scale, allowed=allowed, training=training)
    weights = keras.ops.convert_to_numpy(weights)
    np.testing.assert_array_equal(weights[~allowed], 0)
    np.testing.assert_allclose(weights.sum(-1), allowed.any(-1), rtol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_softmax_of_the_least_logits_is_even(training: bool) -> None:
    least = np.full((1, 5), np.finfo("float32").min)
    np.testing.assert_allclose(weightings.Softmax()(least, training=training), 1 / 5, rtol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_softmax_of_integers_is_that_of_their_values(training: bool) -> None:
    logits = np.array([[1, 2, 4]])
    expected = reference.softmax_weights(logits.astype("float64"), None)
    weights = weightings.Softmax()(logits, training=training)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_softmax_of_one_key_is_one_where_it_is_allowed() -> None:
    allowed = np.array([[True], [False]])
    weights = weightings.Softmax()(np.array([[3.0], [4.0]]), allowed=allowed)
    np.testing.assert_array_equal(weights, allowed)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_softmax_of_half_precision_is_taken_in_float32(dtype: str) -> None:
    # 400 equal weights of 1/400: summed up in half precision they would not reach 1.
    weights = weightings.Softmax(dtype=dtype)(np.zeros((1, 400), "float32"))
    np.testing.assert_allclose(np.asarray(weights).astype("float32"), 1 / 400, rtol=0.004)
    assert keras.backend.standardize_dtype(weights.dtype) == dtype.removeprefix("mixed_")
