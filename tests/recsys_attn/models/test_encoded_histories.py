"""Histories that were encoded before give the scores of their events."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from tests.support.small_models import EVENTS, SCHEMA, inputs

ENCODERS: dict[str, dict[str, Any]] = {
    "gru": {"name": "gru"},
    "context and times": {
        "name": "transformer",
        "positions": "time_buckets",
        "context": {"features": ["user"], "how": "keys"},
    },
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_encoded_histories_score_as_their_events(encoder: str) -> None:
    model = models.din(SCHEMA, width=4, mlp_units=(5,), encoder=ENCODERS[encoder])
    rng = np.random.default_rng(3)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.3, weight.shape))
    values = inputs()
    events = {name: values.pop(name) for name in EVENTS}
    encoded = model.encode({**events, "user": values["user"]})
    found = model.probabilities(values, encoded)
    for task, expected in model.probabilities({**values, **events}).items():
        scores = keras.ops.convert_to_numpy(expected)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found[task]), scores, atol=1e-6)
        assert np.ptp(scores) > 0.01
    assert list(encoded) == ["seen"]
