"""Warm-up before any schedule, and the inverse root, against their formulas."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import InverseSqrtDecay, LazyAdam, WarmUp

STEPS = np.arange(23)


def rates(schedule: Any) -> np.ndarray:
    return np.array([float(schedule(keras.ops.convert_to_tensor(step))) for step in STEPS])


def test_warms_up_to_a_constant() -> None:
    np.testing.assert_allclose(
        rates(WarmUp(0.3, 5)), 0.3 * np.minimum(1, (STEPS + 1) / 6), rtol=1e-6
    )


@pytest.mark.parametrize(
    "schedule",
    [
        keras.optimizers.schedules.ExponentialDecay(0.3, 7, 0.5),
        keras.optimizers.schedules.CosineDecay(0.3, 13),
        InverseSqrtDecay(0.3, 3),
    ],
)
def test_warms_up_to_a_schedule_that_then_begins(schedule: Any) -> None:
    found = rates(WarmUp(schedule, 5))
    np.testing.assert_allclose(found[:5], 0.3 * np.arange(1, 6) / 6, rtol=1e-6)
    np.testing.assert_allclose(found[5:], rates(schedule)[:-5], rtol=1e-6)


def test_warm_up_and_root_are_the_transformer_schedule() -> None:
    found = rates(WarmUp(InverseSqrtDecay(0.3, 5), 5))[5:]
    np.testing.assert_allclose(found, 0.3 * np.sqrt(5 / STEPS[5:]), rtol=1e-6)


def test_survives_its_config_inside_an_optimizer() -> None:
    optimizer = LazyAdam(WarmUp(InverseSqrtDecay(0.3, 7), 5))
    revived = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert revived.get_config() == optimizer.get_config()
    np.testing.assert_array_equal(rates(revived._learning_rate), rates(optimizer._learning_rate))


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_steps_are_positive_integers(steps: Any) -> None:
    with pytest.raises(ValueError, match=f"`warmup_steps` must be a positive .*{steps}"):
        WarmUp(0.1, steps)
    with pytest.raises(ValueError, match=f"`decay_steps` must be a positive .*{steps}"):
        InverseSqrtDecay(0.1, steps)


def test_the_rate_is_a_number_or_a_schedule() -> None:
    assert float(WarmUp(1, 3)(0)) == 0.25
    with pytest.raises(TypeError, match=r"`learning_rate` must be a number or .*'high'"):
        WarmUp("high", 5)
