"""The compressed interaction network equals the sums over all pairs of rows."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.interactions import CompressedInteraction
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

FIELDS = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_layer_equals_the_paper(activation: str) -> None:
    layer = CompressedInteraction((3, 2), activation=activation)
    layer(FIELDS)
    randomise(layer)
    first = FIELDS.astype("float64")
    x, expected = first, []
    for kernel, units in zip(layer.kernels, layer.units, strict=True):
        weights = np.asarray(kernel, "float64").reshape(x.shape[1], units, 5)
        rows = np.zeros((2, units, 4))
        for h, i, j in np.ndindex(units, x.shape[1], 5):
            rows[:, h] += weights[i, h, j] * x[:, i] * first[:, j]
        x = reference.relu(rows) if activation == "relu" else rows
        expected.append(x.sum(axis=-1))
    assert_close(layer(FIELDS), np.concatenate(expected, axis=-1))


def test_no_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one layer"):
        CompressedInteraction(())
