"""Gates of fields equal the papers' equations."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.interactions import ContextGate, CrossFieldGate
from tests.support import reference
from tests.support.arrays import assert_close, normal, weights_of
from tests.support.layer_case import randomise

(FIELDS,) = normal((2, 3, 5, 4))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_a_context_decides_the_gates() -> None:
    layer = ContextGate(context=(3, 1), units=(6,))
    layer(FIELDS)
    randomise(layer)
    kernel, bias, inner, inner_bias = weights_of(layer)
    x = FIELDS.astype("float64")
    context = np.concatenate([x[..., 3, :], x[..., 1, :]], axis=-1)
    logits = reference.relu(context @ inner + inner_bias) @ kernel
    expected = 2 * sigmoid(logits.reshape(x.shape) + bias) * x
    assert_close(layer(FIELDS), expected)


def test_without_context_the_gates_are_those_of_all_rows() -> None:
    layer = ContextGate()
    np.testing.assert_allclose(layer(FIELDS), FIELDS)  # they start at 1
    randomise(layer)
    (bias,) = weights_of(layer)
    assert_close(layer(FIELDS), 2 * sigmoid(bias.astype("float64")) * FIELDS)


def test_fields_are_gated_by_all_fields() -> None:
    layer = CrossFieldGate()
    np.testing.assert_allclose(layer(FIELDS), np.concatenate([FIELDS, FIELDS], axis=-2))
    randomise(layer)
    kernel, bias = weights_of(layer)
    x = FIELDS.astype("float64")
    gated = x.copy()
    for i in range(5):
        total = sum(kernel[i, j] * x[..., j, :] for j in range(5))
        gated[..., i, :] *= total + bias[i]
    assert_close(layer(FIELDS), np.concatenate([x, gated], axis=-2))


def test_a_place_that_is_no_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`context` must be places .* context=\[5\]"):
        ContextGate(context=(5,))(FIELDS)
    with pytest.raises(ValueError, match=r"`context\[0\]` must be an integer of at least 0"):
        ContextGate(context=(-1,))
