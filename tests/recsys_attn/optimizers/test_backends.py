"""JAX, whose gradients are as large as the tables, trains the weights that TensorFlow trains."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.support import trained
from tests.support.arrays import assert_close

OTHER = "jax" if keras.backend.backend() == "tensorflow" else "tensorflow"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return trained.on(OTHER, tmp_path_factory.mktemp("trained") / "weights.npz")


@pytest.mark.thorough
@pytest.mark.parametrize("name", trained.MAKERS)
def test_both_give_the_same(name: str, other: dict[str, np.ndarray]) -> None:
    for key, array in trained.weights(name).items():
        assert_close(array, other[key])
