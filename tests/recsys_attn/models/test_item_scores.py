"""What stands between a state and the vectors of the items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.models.item_scores import ItemScores
from tests.support.arrays import assert_close, normal, numpy

SIZE, WIDTH = 7, 5


@pytest.mark.parametrize(
    ("states", "options", "weights"),
    [
        (WIDTH, {}, []),
        (11, {}, [(11, WIDTH)]),
        (WIDTH, {"hidden": "relu"}, [(WIDTH, WIDTH), (WIDTH,)]),
        (11, {"hidden": "relu", "bias": True}, [(11, WIDTH), (WIDTH,), (SIZE,)]),
        (WIDTH, {"tied": False}, [(SIZE, WIDTH)]),
    ],
)
def test_weights_are_those_of_the_formula(
    states: int, options: dict[str, Any], weights: list[Any]
) -> None:
    for layer in (made := ItemScores(SIZE, WIDTH, **options), ItemScores(**made.get_config())):
        layer(np.zeros((3, states), "float32"))
        assert sorted(tuple(w.shape) for w in layer.weights) == sorted(weights)


def test_state_is_the_query_itself() -> None:
    (states,) = normal((3, 2, WIDTH))
    assert_close(ItemScores(SIZE, WIDTH)(states), states)
    lengths = np.linalg.norm(states, axis=-1, keepdims=True)
    assert_close(ItemScores(SIZE, WIDTH, temperature=0.2)(states), states / lengths / 0.2)


def test_hidden_layer_has_the_activation() -> None:
    (states,) = normal((3, 11))
    layer = ItemScores(SIZE, WIDTH, hidden="relu")
    found = numpy(layer(states))
    kernel, bias = (numpy(weight) for weight in layer.weights)
    assert_close(found, np.maximum(states @ kernel + bias, 0))
