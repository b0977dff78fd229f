"""A chain of probabilities in logits, and the penalty on a broken order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from recsys_attn.multitask import OrderPenalty, ProbabilityChain
from tests.support.arrays import assert_close, numpy
from tests.support.gradients import gradient
from tests.support.references.blocks import sigmoid

LOGITS = np.random.default_rng(0).normal(0, 3, (5, 7, 3)).astype("float32")
EXTREMES = (-1e4, -90.0, -30.0, -1.0, 0.0, 2.0, 30.0, 90.0, 1e4)
PAIRS = np.array(list(itertools.product(EXTREMES, EXTREMES)), "float32")


def products(logits: np.ndarray) -> np.ndarray:
    """The logits of the products of probabilities, by sums of log-sigmoids."""
    logs = np.cumsum(-np.logaddexp(0, -logits.astype("float64")), axis=-1)
    with np.errstate(divide="ignore"):  # a product of 1 to the bit
        return logs - np.log(-np.expm1(logs))


def test_chain_is_the_product_of_three_probabilities() -> None:
    p = np.cumprod(1 / (1 + np.exp(-LOGITS.astype("float64"))), axis=-1)
    found = ProbabilityChain()(LOGITS)
    np.testing.assert_allclose(found, np.log(p / (1 - p)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, products(LOGITS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-6), ("float16", 2e-3)])
def test_chain_is_exact_at_extreme_logits(dtype: str, rtol: float) -> None:
    found = numpy(ProbabilityChain(dtype=dtype)(PAIRS.astype(dtype))).astype("float64")
    np.testing.assert_array_equal(found[:, 0], PAIRS[:, 0])
    expected = products(PAIRS)[:, 1]
    expected[-1] = 1e4 - np.log(2)  # of two probabilities that float64 rounds to 1
    np.testing.assert_allclose(found[:, 1], expected, rtol=rtol, atol=rtol)


def test_chain_has_finite_gradients() -> None:
    found = gradient(lambda x: ProbabilityChain()(x)[..., 1], PAIRS)
    first, second = PAIRS.astype("float64").T
    terms = np.stack([-first, -second, -first - second])
    share = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
    np.testing.assert_allclose(found[:, 0], share[0] + share[2], atol=1e-6)
    np.testing.assert_allclose(found[:, 1], share[1] + share[2], atol=1e-6)


def excess(logits: np.ndarray, where: np.ndarray) -> float:
    """The mean of what breaks the order, one row at a time."""
    rows = []
    for index in np.ndindex(where.shape):
        p = [1 / (1 + np.exp(-z)) for z in logits[index].astype("float64")]
        if where[index]:
            rows.append(sum(max(later - before, 0) for before, later in itertools.pairwise(p)))
    return float(np.mean(rows))


def test_penalty_is_the_mean_over_rows_that_count() -> None:
    where = np.random.default_rng(1).random(LOGITS.shape[:2]) < 0.6
    penalty = OrderPenalty(weight=0.7)
    np.testing.assert_array_equal(penalty(LOGITS, where=where, training=True), LOGITS)
    np.testing.assert_allclose(penalty.losses[0], 0.7 * excess(LOGITS, where), rtol=1e-5)
    everywhere = OrderPenalty()
    everywhere(LOGITS, training=True)
    expected = 0.6 * excess(LOGITS, np.ones(LOGITS.shape[:2], bool))
    np.testing.assert_allclose(everywhere.losses[0], expected, rtol=1e-5)


def test_no_penalty_outside_training_or_in_order() -> None:
    penalty = OrderPenalty()
    penalty(LOGITS)
    assert penalty.losses == []
    penalty(np.sort(LOGITS)[..., ::-1].copy(), training=True)
    assert_close(penalty.losses[0], 0.0)
    none = OrderPenalty(weight=0.0)
    none(LOGITS, training=True)
    assert none.losses == []
    with pytest.raises(ValueError, match="`weight` must be a finite number of at least 0"):
        OrderPenalty(weight=-1.0)


def test_penalty_pulls_both_probabilities() -> None:
    """Down the later task, up the one before, as much as the slope of the sigmoid."""

    def total(x: Any) -> Any:
        penalty = OrderPenalty(weight=1.0)
        penalty(x, training=True)
        return penalty.losses[0]

    z = np.array([[-0.5, 1.5]], "float32")
    slope = sigmoid(z) * (1 - sigmoid(z))
    np.testing.assert_allclose(gradient(total, z), slope * [[-1, 1]], rtol=1e-5)
