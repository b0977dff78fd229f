"""A saved model is the same model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import keras
import numpy as np
import pytest

from recsys_attn import models
from tests.support.small_models import SCHEMA, SMALL, assert_same, inputs, make, scores


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_survives_saving(name: str, tmp_path: Path) -> None:
    model = make(name)
    expected = scores(model, inputs())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.schema == SCHEMA
    assert_same(scores(loaded, inputs()), expected)


# Further options that the other value of an option needs.
FULL = {"rank": None, "cross_experts": 1}
OTHERS: dict[tuple[str, str], dict[str, Any]] = {
    ("dcn", "cross"): FULL,
    ("dcn", "gated"): FULL,
    ("finalmlp", "gated"): {"first_context": (), "second_context": (), "gate_units": None},
}


def _choices() -> Iterator[tuple[str, str, Any]]:
    """Each other value of the options of models that have few values."""
    for name in sorted(SMALL):
        hints = get_type_hints(models.get(name))
        for option, parameter in inspect.signature(models.get(name)).parameters.items():
            hint = hints[option]
            values = (True, False) if hint is bool else get_args(hint)
            if hint is bool or get_origin(hint) is Literal:
                taken = SMALL[name].get(option, parameter.default)
                yield from ((name, option, value) for value in values if value != taken)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "option", "value"), list(_choices()))
def test_every_choice_survives_saving(name: str, option: str, value: Any, tmp_path: Path) -> None:
    others = OTHERS.get((name, option), {})
    model = models.get(name)(SCHEMA, **{**SMALL[name], **others, option: value})
    expected = scores(model, inputs())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(scores(loaded, inputs()), expected)


@pytest.fixture
def set_policy() -> Iterator[Callable[[str], None]]:
    """Sets the global dtype policy, for the length of a test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SMALL))
def test_loaded_model_keeps_its_precision(
    name: str, tmp_path: Path, set_policy: Callable[[str], None]
) -> None:
    set_policy("mixed_bfloat16")
    model = models.get(name)(SCHEMA, **SMALL[name])
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    expected = scores(model, inputs())
    model.save(tmp_path / "model.keras")
    set_policy("float32")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for task, score in scores(loaded, inputs()).items():
        np.testing.assert_array_equal(score, expected[task])
