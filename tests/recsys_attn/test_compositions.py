"""Every composition passes the shared checks; the causal ones never look ahead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.support import other_backend
from tests.support.arrays import assert_close
from tests.support.compositions import COMPOSITIONS, Composition
from tests.support.layer_case import SIZES, LayerCase, grouped, outputs_of, randomise
from tests.support.layer_checks import (
    CHECKS,
    OF_CLASSES,
    shapes_are_computed,
    training_step_changes_weights,
)
from tests.support.once import once

# The parts pass these in any composition.
OF_PARTS = (*OF_CLASSES, shapes_are_computed, training_step_changes_weights)
CAUSAL = {name: c for name, c in COMPOSITIONS.items() if c.causal}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check, marks=pytest.mark.thorough if check in OF_PARTS else (), id=check.__name__
        )
        for check in CHECKS
    ],
)
@pytest.mark.parametrize("composition", grouped(COMPOSITIONS))
def test_composition(
    composition: Composition, check: Callable[[LayerCase, Path], None], tmp_path: Path
) -> None:
    check(composition.case, tmp_path)


@pytest.mark.parametrize("composition", grouped(CAUSAL))
def test_the_future_changes_nothing_in_the_past(composition: Composition) -> None:
    layer, arrays = composition.case.make(), composition.case.arrays()
    layer(**arrays)
    randomise(layer)
    expected = outputs_of(layer, arrays)["0"]
    changes = [(t, shift) for t in range(1, SIZES["S"]) for shift in (1.0, 1e3)]
    queries = []
    for t, shift in changes:
        queries.append(arrays["query"].copy())
        queries[-1][:, t:] += shift * np.random.default_rng(t).normal(size=queries[-1][:, t:].shape)
    masks = np.tile(arrays["query_mask"], (len(changes), 1))
    outputs = outputs_of(layer, {"query": np.concatenate(queries), "query_mask": masks})["0"]
    for (t, _), output in zip(changes, np.split(outputs, len(changes)), strict=True):
        np.testing.assert_allclose(output[:, :t], expected[:, :t], rtol=1e-5, atol=1e-5)
        # And what changed is seen, so that the check can fail.
        assert np.abs(output[:, t:] - expected[:, t:]).max() > 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("composition", grouped(COMPOSITIONS))
def test_padding_further_changes_nothing(composition: Composition) -> None:
    """A request scores alike alone and in a batch with longer ones."""
    longest = SIZES["S"]
    events = composition.case.arrays(T=longest)["query"]
    present = np.arange(longest) < np.array([[1], [2], [4], [3], [4]])
    layer = composition.case.make()
    layer(events, query_mask=present)
    randomise(layer)
    expected = outputs_of(layer, {"query": events, "query_mask": present})["0"]
    # A projection sums in float32: an output near zero carries the rounding of its neighbours.
    size = np.maximum(1.0, np.abs(expected).max(axis=-1, keepdims=True))
    # JAX compiles every operation for every length.
    for length in (4,) if keras.backend.backend() == "jax" else (4, longest - 1):
        short = {"query": events[:, :length], "query_mask": present[:, :length]}
        output = outputs_of(layer, short)["0"]
        error = np.abs(output - expected[:, :length]) / size[:, :length]
        assert error.max() <= 1e-5


@pytest.fixture(scope="session")
def on_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    if keras.backend.backend() == "tensorflow":
        pytest.skip("compares another backend with TensorFlow")
    folder = once(tmp_path_factory, "on_tensorflow", other_backend.on_tensorflow)
    with np.load(folder / "outputs.npz") as outputs:
        return dict(outputs)


@pytest.mark.parametrize("name", grouped({name: name for name in COMPOSITIONS}))
def test_every_backend_computes_the_same(name: str, on_tensorflow: dict[str, np.ndarray]) -> None:
    output = other_backend.output(name)
    assert_close(output, on_tensorflow[name])
