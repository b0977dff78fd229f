"""Dropout of ids: the share, what stays, and draws that follow from the step."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipelines.training.step import IdDropout
from recsys_attn.schema import UNKNOWN_ID, Categorical, Numeric, Schema, Sequence, Task

SCHEMA = Schema(
    (Categorical("item", size=9), Numeric("price"), Sequence("seen", shares="item")),
    (Task("click"),),
)
IDS = np.tile(np.array([0, 2, 3, 4, 8], "int32"), (400, 10))
INPUTS = {"item": tf.constant(IDS), "seen": tf.constant(IDS), "price": tf.ones((400, 50))}


def _dropped(share: float, step: int) -> dict[str, np.ndarray]:
    found = IdDropout(SCHEMA, share)(INPUTS, tf.constant(step))
    return {name: value.numpy() for name, value in found.items()}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_share_of_ids_becomes_unknown(share: float) -> None:
    found = _dropped(share, 3)
    for name in ("item", "seen"):
        changed = found[name] != IDS
        assert (found[name][changed] == UNKNOWN_ID).all()
        assert not changed[IDS == 0].any()
        assert changed[IDS != 0].mean() == pytest.approx(share, abs=0.02)
    np.testing.assert_array_equal(found["price"], 1)


def test_draws_follow_from_the_step() -> None:
    again, first, other = _dropped(0.3, 7), _dropped(0.3, 7), _dropped(0.3, 8)
    np.testing.assert_array_equal(first["item"], again["item"])
    assert (first["item"] != other["item"]).any()
    assert (first["item"] != first["seen"]).any()
