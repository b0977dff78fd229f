"""The weights of an ensemble: those of the least logloss, unless they are noise."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.training.ensemble_weights import equal_weights, fit_weights

ROWS = 4001


def drawn(*deviations: float, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a known logit, and for each deviation a member that knows it so well."""
    rng = np.random.default_rng(7)
    truth = rng.normal(-1.5, 1.0, rows)
    labels = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype("float64")
    return labels, np.stack([truth + rng.normal(0, one, rows) for one in deviations])


def test_weights_are_those_of_the_least_calibrated_logloss() -> None:
    """Beside a search over shares and slopes; the offset is near that of the calibrated truth."""
    labels, logits = drawn(0.4, 0.9)
    shares, slopes, offsets = np.arange(0, 1.01, 0.05), np.arange(0.4, 1.3, 0.05), (-0.6, 0.1)

    def loss(share: float, slope: float, offset: float) -> float:
        z = slope * (share * logits[0] + (1 - share) * logits[1]) + offset
        return float(np.mean(np.logaddexp(0, z) - labels * z))

    best = min(
        (loss(share, slope, offset), share)
        for share in shares
        for slope in slopes
        for offset in np.arange(*offsets, 0.1)
    )
    chosen = fit_weights(labels, logits)
    assert chosen.fitted
    np.testing.assert_allclose(chosen.weights, [best[1], 1 - best[1]], atol=0.05)


def test_a_member_of_noise_has_nearly_no_weight() -> None:
    labels, logits = drawn(0.4, 0.4)
    noise = np.random.default_rng(11).normal(-1.5, 1.0, (1, ROWS))
    chosen = fit_weights(labels, np.concatenate([logits[:1], noise, logits[1:]]))
    assert chosen.fitted
    assert chosen.weights[1] < 0.05
    np.testing.assert_allclose(sum(chosen.weights), 1)


def test_a_member_that_is_wrong_has_no_negative_weight() -> None:
    labels, logits = drawn(0.4, 0.4)
    chosen = fit_weights(labels, logits * [[1], [-1]])
    np.testing.assert_array_equal(chosen.weights, [1, 0])


@pytest.mark.parametrize("deviations", [(0.5, 0.5, 0.5), (0.5, 0.52)])
def test_members_that_are_alike_have_equal_weights(deviations: tuple[float, ...]) -> None:
    chosen = fit_weights(*drawn(*deviations))
    assert (chosen.fitted, chosen.weights) == (False, equal_weights(len(deviations)).weights)
    assert chosen.gain is not None
    assert chosen.error is not None
    assert chosen.gain <= chosen.error


def test_rows_without_a_label_do_not_count() -> None:
    labels, logits = drawn(0.4, 0.9)
    unknown = np.full(997, np.nan)
    wild = np.random.default_rng(3).normal(0, 9, (2, 997))
    more = fit_weights(np.append(labels, unknown), np.concatenate([logits, wild], axis=1))
    np.testing.assert_array_equal(more.weights, fit_weights(labels, logits).weights)


@pytest.mark.parametrize("positives", [0, 3])
def test_few_positives_give_equal_weights(positives: int) -> None:
    labels = (np.arange(97) < positives).astype("float64")
    assert fit_weights(labels, drawn(0.1, 9.0, rows=97)[1]) == equal_weights(2)
