"""Losses over candidates and requests, against their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, get_args

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.loss_options import (
    CrossEntropy,
    Focal,
    Jrc,
    LossName,
    LossOptions,
    RankingLoss,
    loss_options,
)
from recsys_attn.losses import LOSSES, CandidateCrossentropy, task_loss
from recsys_attn.schema import Task
from tests.support.gradients import gradient

RNG = np.random.default_rng(0)
LABELS = (RNG.random((5, 3)) < 0.4).astype("float32")
LOGITS = RNG.normal(size=(5, 3)).astype("float32") * 3


def by_definition(weights: np.ndarray) -> float:
    probability = 1 / (1 + np.exp(-LOGITS.astype("float64")))
    losses = -np.log(np.where(LABELS == 1, probability, 1 - probability))
    return (losses * weights).sum() / weights.sum()


def test_is_the_mean_over_candidates() -> None:
    np.testing.assert_allclose(
        CandidateCrossentropy()(LABELS, LOGITS), by_definition(np.ones((5, 3))), rtol=1e-5
    )


def test_divides_by_the_weights() -> None:
    weights = (RNG.random((5, 3)) < 0.5).astype("float32")
    found = CandidateCrossentropy()(LABELS, LOGITS, sample_weight=weights)
    np.testing.assert_allclose(found, by_definition(weights), rtol=1e-5)


def test_candidate_without_weight_does_not_count() -> None:
    weights = np.ones((5, 3), "float32")
    weights[1:, 2] = 0
    other = np.where(weights == 0, 1e3, LOGITS)
    loss = CandidateCrossentropy()
    assert float(loss(LABELS, LOGITS, weights)) == float(loss(LABELS, other, weights))


def test_batch_without_weights_has_no_loss() -> None:
    assert float(CandidateCrossentropy()(LABELS, LOGITS, np.zeros((5, 3)))) == 0


def test_survives_its_config() -> None:
    revived = keras.losses.deserialize(keras.losses.serialize(CandidateCrossentropy()))
    assert float(revived(LABELS, LOGITS)) == float(CandidateCrossentropy()(LABELS, LOGITS))


def requests_of(
    count: int = 60, longest: int = 7, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, logits and a mask; some requests lack a positive, a negative or a candidate."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((count, longest)) < rng.random((count, 1))).astype("float32")
    logits = rng.normal(scale=4, size=(count, longest)).astype("float32")
    return labels, logits, rng.random((count, longest)) < rng.random((count, 1))


def softmax_of(positive: np.ndarray, negative: np.ndarray) -> float:
    total = np.log(np.exp(positive).sum() + np.exp(negative).sum())
    return float(np.mean([total - z for z in positive]))


def bpr_of(positive: np.ndarray, negative: np.ndarray) -> float:
    return float(np.mean([np.log1p(np.exp(n - p)) for p in positive for n in negative]))


def list_mle_of(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean share of the positives is left when some of them are drawn."""
    count, loss = len(positive), -positive.sum()
    for drawn in range(count):
        left = (count - drawn) / count * np.exp(positive).sum()
        loss += np.log(np.exp(negative).sum() + left)
    return float(loss / count)


def drawn_first(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean negative log-likelihood of the positives' orders, one draw at a time."""
    losses = []
    for order in itertools.permutations(positive):
        rest = [np.log(np.exp([*order[k:], *negative]).sum()) - z for k, z in enumerate(order)]
        losses.append(np.mean(rest))
    return float(np.mean(losses))


RANKING: dict[LossName, Callable[..., float]] = {
    "softmax": softmax_of,
    "bpr": bpr_of,
    "list_mle": list_mle_of,
}


def by_loop(
    reference: Callable[..., float], labels: np.ndarray, logits: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    found = []
    for y, z, known in zip(labels, logits.astype("float64"), mask, strict=True):
        positive, negative = z[known & (y == 1)], z[known & (y == 0)]
        counts = len(positive) and len(negative)
        found.append(reference(positive, negative) if counts else 0.0)
    return np.array(found)


def smoothed(y: np.ndarray, z: np.ndarray, smoothing: float) -> float:
    p = 1 / (1 + np.exp(-z))
    target = (1 - smoothing) * y + smoothing * 0.5
    return float(np.sum(-target * np.log(p) - (1 - target) * np.log(1 - p)))


def focal(y: np.ndarray, z: np.ndarray, gamma: float) -> float:
    p = 1 / (1 + np.exp(-z))
    right = np.where(y == 1, p, 1 - p)
    return float(np.sum(-((1 - right) ** gamma) * np.log(right)))


def jrc(y: np.ndarray, z: np.ndarray, alpha: float) -> float:
    """The paper's two terms with the logits [0, z], without what each negative adds."""
    f = np.stack([np.zeros_like(z), z], axis=1)
    loss = 0.0
    for row, label in zip(f, y.astype(int), strict=True):
        among_labels = np.exp(row[label]) / np.exp(row).sum()
        among_candidates = np.exp(row[label]) / np.exp(f[:, label]).sum()
        own = 0.0 if label else np.log(len(z))
        loss += -alpha * np.log(among_labels) - (1 - alpha) * (np.log(among_candidates) + own)
    return loss


def _name(part: Any) -> str:
    return str(getattr(part, "__name__", part))


BY_CANDIDATE: list[tuple[LossOptions, Callable[..., float], float]] = [
    (CrossEntropy(smoothing=0.13), smoothed, 0.13),
    (Focal(gamma=1.7), focal, 1.7),
    (Jrc(alpha=0.3), jrc, 0.3),
]


@pytest.mark.parametrize(
    ("options", "reference", "value"),
    BY_CANDIDATE,
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_loss_of_probabilities_is_that_of_its_equation(
    options: LossOptions, reference: Callable[..., float], value: float
) -> None:
    labels, logits, mask = requests_of()
    rows = zip(labels, logits.astype("float64"), mask, strict=True)
    expected = [reference(y[known], z[known], value) for y, z, known in rows]
    loss = task_loss(options)
    np.testing.assert_allclose(
        loss.of_requests(labels, logits, mask), expected, rtol=2e-5, atol=1e-5
    )
    np.testing.assert_array_equal(loss.counts(labels, mask), mask.sum(axis=1))
    extreme = np.array([[-1e4, 1e4]], "float32"), np.ones((1, 2))
    assert np.isfinite(loss.of_requests(np.array([[1.0, 0.0]]), *extreme)).all()


@pytest.mark.parametrize("limit", [CrossEntropy(0.0), Focal(0.0), Jrc(1.0)], ids=str)
def test_limit_of_each_option_is_cross_entropy(limit: LossOptions) -> None:
    found, expected = (
        task_loss(loss).of_requests(*requests_of()) for loss in (limit, "cross_entropy")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert limit.needs_calibration is False


def test_jrc_keeps_the_mean_probability_of_cross_entropy() -> None:
    """Moving all logits of a request together changes the cross-entropy alone."""
    labels, logits, mask = requests_of()
    found, cross_entropy = (
        gradient(lambda z, loss=loss: task_loss(loss).of_requests(labels, z, mask), logits)
        for loss in (Jrc(0.3), "cross_entropy")
    )
    np.testing.assert_allclose(found.sum(axis=1), 0.3 * cross_entropy.sum(axis=1), atol=1e-5)


def test_a_name_has_the_defaults_of_its_options() -> None:
    for name in get_args(LossName):
        options = loss_options(name)
        assert loss_options({"name": name}) == loss_options(options) == options
        by_name = LOSSES[name].of_requests(*requests_of())
        np.testing.assert_array_equal(task_loss(options).of_requests(*requests_of()), by_name)
    assert Task("click", loss="focal").has_probabilities
    assert not Task("click", loss=RankingLoss("bpr")).has_probabilities


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CrossEntropy(1.0), "`smoothing` must be a finite number of at least 0 and below"),
        (lambda: Focal(-0.1), "`gamma` must be a finite number of at least 0"),
        (lambda: Jrc(0.0), "`alpha` must be a finite number above 0 and at most 1"),
        (lambda: RankingLoss("focal"), "Unknown `name`. Valid names: "),
        (lambda: loss_options("focall"), "Did you mean 'focal'"),
    ],
)
def test_option_out_of_range_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_every_loss_name_has_a_loss() -> None:
    assert set(LOSSES) == set(get_args(LossName))
    with pytest.raises(ValueError, match=r"Task 'click': unknown `loss`"):
        Task("click", loss="sofmax")


@pytest.mark.parametrize("name", RANKING)
def test_ranking_loss_is_that_of_the_loop_over_requests(name: LossName) -> None:
    labels, logits, mask = requests_of()
    expected = by_loop(RANKING[name], labels, logits, mask)
    assert 10 < (expected == 0).sum() < 50
    found = LOSSES[name].of_requests(labels, logits, mask)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(LOSSES[name].counts(labels, mask), expected != 0)


def test_cross_entropy_of_requests_is_that_of_the_candidates() -> None:
    labels, logits, mask = requests_of()
    loss = LOSSES["cross_entropy"]
    total = ops.sum(loss.of_requests(labels, logits, mask)) / ops.sum(loss.counts(labels, mask))
    expected = CandidateCrossentropy()(labels, logits, mask.astype("float32"))
    np.testing.assert_allclose(total, expected, rtol=1e-6)


def test_list_mle_is_exact_for_one_positive_or_equal_ones() -> None:
    rng = np.random.default_rng(2)
    negative, positive = rng.normal(size=4), rng.normal(size=3)
    for of_positives in (positive[:1], np.full(3, positive[0]), positive):
        labels = np.repeat([1.0, 0.0], [len(of_positives), 4])[None]
        logits = np.concatenate([of_positives, negative])[None]
        found = float(LOSSES["list_mle"].of_requests(labels, logits, np.ones_like(labels))[0])
        expected = drawn_first(of_positives, negative)
        if len(set(of_positives)) == 1:
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        else:  # a bound
            assert expected < found < expected + 0.2


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_ignore_what_is_masked_and_the_order(name: LossName) -> None:
    """Also with NaN labels and huge logits behind the mask."""
    labels, logits, mask = requests_of()
    order = np.random.default_rng(3).permutation(labels.shape[1])

    def gradients(labels: np.ndarray, logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return gradient(lambda z: LOSSES[name].of_requests(labels, z, mask), logits)

    found = gradients(labels, logits, mask)
    assert np.isfinite(found).all()
    assert (found[~mask] == 0).all()
    assert np.abs(found).max() > 0.05
    hidden = np.where(mask, labels, np.nan), np.where(mask, logits, 1e4).astype("float32")
    np.testing.assert_array_equal(gradients(*hidden, mask), found)
    moved = gradients(labels[:, order], logits[:, order], mask[:, order])
    np.testing.assert_allclose(moved, found[:, order], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", RANKING)
def test_ranking_loss_is_stable_and_sees_differences_only(name: LossName) -> None:
    labels, logits, mask = requests_of()
    expected = LOSSES[name].of_requests(labels, logits, mask)
    shifted = LOSSES[name].of_requests(labels, logits + 1000, mask)
    np.testing.assert_allclose(shifted, expected, atol=1e-3)
    far = np.array([[-1e4, 1e4], [-1e4, 1e4]], "float32")
    extreme = LOSSES[name].of_requests(np.eye(2, dtype="float32"), far, np.ones((2, 2)))
    np.testing.assert_allclose(extreme, [2e4, 0.0], rtol=1e-5)


def test_an_unknown_option_of_a_loss_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"'focal' has no such option.*Received: 'gama'. Did you"):
        Task("click", loss={"name": "focal", "gama": 1.0})
