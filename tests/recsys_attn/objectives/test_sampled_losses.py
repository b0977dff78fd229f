"""Losses with drawn negatives, against one position and one item at a time, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.objectives import (
    BinaryCrossEntropy,
    Bpr,
    GeneralisedBce,
    SampledLoss,
    SampledSoftmax,
    Softmax,
)
from recsys_attn.objectives.sampling import Draws, Scores
from tests.support.arrays import assert_close
from tests.support.catalogues import (
    COUNTS,
    OFFSETS,
    POSITIONS,
    SIZE,
    STATES,
    TARGETS,
    VECTORS,
    WEIGHTS,
    Catalogue,
    drawn_ids,
    seed,
)
from tests.support.gradients import gradient, numeric
from tests.support.references import item_losses as reference
from tests.support.refusals import refusals

ITEMS = SIZE - 2
K = 7
Formula = Callable[[float, np.ndarray, np.ndarray], float]


def generalised(target: float, others: np.ndarray, expected: np.ndarray) -> float:
    alpha = K / (ITEMS - 1)
    beta = alpha * (0.75 * (1 - 1 / alpha) + 1 / alpha)  # as the paper writes it
    return reference.binary_cross_entropy(target, others, expected, beta)


LOSSES: dict[str, tuple[SampledLoss, Formula]] = {
    "sampled_softmax": (SampledSoftmax(K), reference.sampled_softmax),
    "uncorrected": (SampledSoftmax(K, correction=False), reference.uncorrected_softmax),
    "binary_cross_entropy": (BinaryCrossEntropy(K), reference.binary_cross_entropy),
    "generalised_bce": (GeneralisedBce(K), generalised),
    "bpr": (Bpr(K), reference.bpr),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
every_way = pytest.mark.parametrize(
    ("by", "shared"), [("uniform", False), ("uniform", True), ("popularity", False)]
)


def by_definition(
    loss: SampledLoss, formula: Formula, states: Any, vectors: Any, offsets: Any
) -> np.ndarray:
    share = np.full(SIZE, 1 / ITEMS) if loss.by == "uniform" else COUNTS / COUNTS[2:].sum()
    total = 0.0
    for state, target, weight, ids in zip(states, TARGETS, WEIGHTS, drawn_ids(loss), strict=True):
        others = [i for i in ids if i != target]
        scores = np.array([reference.score(state, vectors, offsets, i) for i in others])
        of_target = reference.score(state, vectors, offsets, target)
        total += float(weight) * formula(of_target, scores, K * share[others])
    return np.asarray(total)


@pytest.mark.sampled(6)
@every_way
@every_loss
def test_losses_equal_their_formulas(name: str, by: Any, shared: bool) -> None:
    made, formula = LOSSES[name]
    loss = replace(made, by=by, shared=shared)
    assert np.any(drawn_ids(loss) == TARGETS[:, None])  # some are the target

    def found(states: Any, vectors: Any) -> Any:
        output = Catalogue(vectors, OFFSETS)
        return loss(states, TARGETS, WEIGHTS, output, COUNTS, seed())

    states, vectors = STATES.astype("float64"), VECTORS.astype("float64")
    assert_close(
        found(STATES, VECTORS),
        by_definition(loss, formula, states, vectors, OFFSETS),
        rtol=1e-5,
    )
    wanted = numeric(lambda x: by_definition(loss, formula, x, vectors, OFFSETS), states)
    assert_close(gradient(lambda x: found(x, VECTORS), STATES), wanted, atol=1e-5)
    wanted = numeric(lambda x: by_definition(loss, formula, states, x, OFFSETS), vectors)
    assert_close(gradient(lambda x: found(STATES, x), VECTORS), wanted, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_an_item_that_is_the_target_is_no_negative(name: str) -> None:
    loss, _ = LOSSES[name]

    class Fixed(type(loss)):  # type: ignore[misc]
        def draw(self, shape: Any, *arguments: Any) -> Draws:
            return Draws(ops.full(shape, 4, "int32"), ops.zeros(()))

    targets = np.full(POSITIONS, 4, "int32")
    fixed = Fixed(**loss.get_config())
    by_vectors = gradient(lambda x: fixed(STATES, targets, WEIGHTS, Catalogue(x)), VECTORS)
    alone = loss.losses(
        Scores(
            STATES @ VECTORS[4],
            np.zeros((POSITIONS, 1), "float32"),
            np.zeros((POSITIONS, 1), bool),
            0.0,
        ),
        SIZE,
    )
    assert_close(fixed(STATES, targets, WEIGHTS, Catalogue()), np.sum(WEIGHTS * alone), rtol=1e-5)
    assert np.all(by_vectors[np.arange(SIZE) != 4] == 0)


def test_softmax_with_every_item_drawn_once_is_the_full_softmax() -> None:
    class Every(SampledSoftmax):
        def draw(self, shape: Any, size: int, *arguments: Any) -> Draws:
            return Draws(ops.arange(2, size, dtype="int32"), ops.zeros(()))

    output = Catalogue(VECTORS, OFFSETS)
    found = Every()(STATES, TARGETS, WEIGHTS, output)
    assert_close(found, Softmax()(STATES, TARGETS, WEIGHTS, output), rtol=1e-5)


@pytest.mark.parametrize("by", ["uniform", "popularity"])
def test_softmax_with_many_draws_tends_to_the_full_softmax(by: Any) -> None:
    counts = np.where(COUNTS == 0, 1, COUNTS)
    loss = SampledSoftmax(negatives=200_003, by=by)
    found = loss(STATES, TARGETS, WEIGHTS, Catalogue(), counts, seed())
    assert_close(found, Softmax()(STATES, TARGETS, WEIGHTS, Catalogue()), rtol=1e-2)


@pytest.mark.parametrize("by", ["uniform", "popularity"])
def test_corrected_sum_has_the_expectation_of_the_full_one(by: Any) -> None:
    draws, counts, scores = 100_003, np.where(COUNTS == 0, 1, COUNTS), VECTORS @ STATES[0]
    loss = SampledSoftmax(negatives=3, by=by)
    ids, log_expected = loss.draw((draws, 3), SIZE, counts, seed())
    ids = ops.convert_to_numpy(ids)
    target = np.full(draws, scores[5])
    losses = loss.losses(Scores(target, scores[ids], ids != 5, log_expected), SIZE)
    sums = np.exp(ops.convert_to_numpy(losses) + scores[5])
    assert_close(sums.mean(), np.exp(scores[2:]).sum(), rtol=2e-2)


def test_gbce_without_calibration_is_binary_cross_entropy() -> None:
    arguments = (STATES, TARGETS, WEIGHTS, Catalogue(), None)
    found = GeneralisedBce(K, calibration=0)(*arguments, seed())
    assert float(found) == float(BinaryCrossEntropy(K)(*arguments, seed()))


def test_gbce_weights_the_target_by_the_share_that_is_drawn() -> None:
    assert GeneralisedBce(4, calibration=1.0).target_weight(SIZE) == pytest.approx(4 / (ITEMS - 1))
    full = GeneralisedBce(ITEMS - 1, calibration=0.6)
    assert full.target_weight(SIZE) == pytest.approx(1)


def test_calibrated_gbce_is_least_at_the_probabilities() -> None:
    """With the expected number of draws of each item, the best sigmoid is the probability."""
    rate, draws = 0.03, 40 / (ITEMS - 1)
    weight = GeneralisedBce(40, calibration=1.0).target_weight(SIZE)
    scores = np.linspace(-6, 6, 1201)
    loss = rate * weight * np.logaddexp(0, -scores) + (1 - rate) * draws * np.logaddexp(0, scores)
    assert scores[loss.argmin()] == pytest.approx(np.log(rate / (1 - rate)), abs=0.01)


def test_bpr_counts_the_order_alone() -> None:
    arguments = (TARGETS, WEIGHTS)
    moved = Catalogue(VECTORS, np.full(SIZE, 7, "float32"))
    found = Bpr(K)(STATES, *arguments, moved, None, seed())
    assert_close(found, Bpr(K)(STATES, *arguments, Catalogue(), None, seed()), rtol=1e-5)
    even = Bpr(K)(0 * STATES, *arguments, Catalogue(), None, seed())
    some = np.any(drawn_ids(Bpr(K)) != TARGETS[:, None], axis=1)
    assert_close(even, np.log(2) * np.sum(WEIGHTS * some), rtol=1e-5)


test_wrong_arguments = refusals(
    (lambda: SampledSoftmax(correction=None), "`correction` must be True or False"),
    (lambda: GeneralisedBce(calibration=2), "`calibration` must be a finite number"),
)
