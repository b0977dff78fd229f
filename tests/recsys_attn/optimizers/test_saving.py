"""A model that is saved and read back goes on as if nothing had happened."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.models import RankingModel
from recsys_attn.optimizers import LazyAdagrad, LazyAdam, LossScale, RowWiseAdagrad, Split, WarmUp
from tests.support.optimizers import fit, model, needs_lookups, numpy


def split() -> Split:
    rest = keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.03, 23))
    return Split(LazyAdam(WarmUp(0.1, 7), weight_decay=0.1), rest, global_clipnorm=1.0)


OPTIMIZERS: dict[str, Any] = {
    "LazyAdam": lambda: LazyAdam(0.1, weight_decay=0.1),
    "LazyAdagrad": lambda: LazyAdagrad(0.1),
    "RowWiseAdagrad": lambda: RowWiseAdagrad(0.1, clipnorm=1.0),
    "Split": split,
    "LossScale": lambda: LossScale(split(), initial_scale=8.0, dynamic_growth_steps=7),
}
# `LossScale` holds `Split`, that `LazyAdam`, and `l2` is of `RowWiseAdagrad`.
CASES = [
    *(
        pytest.param(make, id=name, marks=() if name == "LossScale" else pytest.mark.thorough)
        for name, make in OPTIMIZERS.items()
    ),
    pytest.param(lambda: RowWiseAdagrad(0.1, l2=0.1), id="l2", marks=needs_lookups),
]


def compiled(make: Any) -> RankingModel:
    trained = model()
    trained.compile(make(), "mse")
    return trained


def expect_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@dataclass
class Saved:
    """A model in the middle of its training, and its weights in the end."""

    make: Any
    folder: Path
    model: RankingModel  # at the end
    optimizer_config: dict[str, Any]
    weights: list[np.ndarray]
    state: list[np.ndarray]
    expected: list[np.ndarray]


@pytest.fixture(scope="module", params=CASES)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    trained, folder = compiled(request.param), tmp_path_factory.mktemp("saved")
    fit(trained)
    weights = trained.get_weights()
    state = [numpy(v) for v in trained.optimizer.variables]
    trained.save(folder / "model.keras")
    trained.save_weights(folder / "model.weights.h5")
    config = trained.optimizer.get_config()
    expected = fit(trained)
    return Saved(request.param, folder, trained, config, weights, state, expected)


@pytest.mark.thorough
def test_a_loaded_model_goes_on(saved: Saved) -> None:
    revived = keras.models.load_model(saved.folder / "model.keras")
    assert revived.optimizer.get_config() == saved.optimizer_config
    expect_equal(fit(revived), saved.expected)


@pytest.mark.sampled(2)
def test_loaded_weights_go_on(saved: Saved) -> None:
    revived = compiled(saved.make)
    revived.optimizer.build(revived.trainable_variables)
    revived.load_weights(saved.folder / "model.weights.h5")
    expect_equal(fit(revived), saved.expected)


def test_weights_that_are_set_go_on(saved: Saved) -> None:
    """Over all that further steps have left."""
    saved.model.set_weights(saved.weights)
    saved.model.optimizer.set_weights(saved.state)
    expect_equal(fit(saved.model), saved.expected)


def test_nothing_is_saved_twice() -> None:
    """Keras walks through an optimizer to those that it holds, and saves each."""
    outer = OPTIMIZERS["LossScale"]()
    outer.build(model().trainable_variables)
    inner = outer.inner_optimizer
    stores: list[dict[str, Any]] = [{} for _ in range(4)]
    for optimizer, store in zip((outer, inner, inner.embeddings, inner.rest), stores, strict=True):
        optimizer.save_own_variables(store)
    shapes = [np.shape(array) for store in stores for array in store.values()]
    assert sorted(shapes) == sorted(tuple(v.shape) for v in outer.variables)


def test_weights_of_another_optimizer_are_not_taken(tmp_path: Path) -> None:
    trained = compiled(lambda: keras.optimizers.Adam(0.1))
    fit(trained)
    trained.save_weights(tmp_path / "model.weights.h5")
    other = compiled(split)
    other.optimizer.build(other.trainable_variables)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other.load_weights(tmp_path / "model.weights.h5")
    messages = [str(warning.message) for warning in caught]
    assert re.match(r"split.* starts anew: it has 2 variables, and \d+ were saved", messages[0])
    assert all("Skipping variable loading" in message for message in messages[1:])  # of both parts
    assert int(other.optimizer.iterations) == 0
