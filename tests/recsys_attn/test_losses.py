"""Cross-entropy per candidate, against its definition."""

from __future__ import annotations

import keras
import numpy as np

from recsys_attn.losses import CandidateCrossentropy

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
