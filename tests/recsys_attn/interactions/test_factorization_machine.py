"""Products of pairs equal sums over all pairs, and sharing attention equally is their mean."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest

from recsys_attn.interactions import AttentionalPairs, FactorizationMachine, PairProducts
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

RNG = np.random.default_rng(0)
FIELDS = RNG.normal(size=(2, 3, 5, 4)).astype("float32")
PAIRS = list(itertools.combinations(range(5), 2))


def products(fields: np.ndarray) -> np.ndarray:
    """The products of all pairs by channel, (..., P, E), in float64."""
    wide = fields.astype("float64")
    return np.stack([wide[..., i, :] * wide[..., j, :] for i, j in PAIRS], axis=-2)


def test_a_factorization_machine_sums_all_pairs() -> None:
    expected = products(FIELDS).sum(axis=(-1, -2))
    assert_close(FactorizationMachine()(FIELDS)[..., 0], expected)


@pytest.mark.parametrize("by_channel", [False, True])
def test_pairs_come_in_order(by_channel: bool) -> None:
    expected = products(FIELDS) if by_channel else products(FIELDS).sum(axis=-1)
    layer = PairProducts(by_channel=by_channel)
    assert layer.compute_output_shape(FIELDS.shape) == expected.shape
    assert_close(layer(FIELDS), expected)


def test_attentional_pairs_follow_the_equation() -> None:
    layer = AttentionalPairs({"class_name": "afm", "config": {"units": 6}})
    present = RNG.random((2, 3, 5)) < 0.6
    present[0, 0] = [True, False, False, False, False]  # no pair
    layer(FIELDS, present=present)
    randomise(layer)
    score = layer.pooling.attention.mechanism.score
    kernel, bias, vector = (
        np.asarray(weight, "float64")[0] for weight in (score.kernel, score.bias, score.vector)
    )
    pairs = products(FIELDS)
    there = np.stack([present[..., i] & present[..., j] for i, j in PAIRS], axis=-1)
    logits = reference.relu(pairs @ kernel + bias) @ vector[0]
    shares = reference.softmax_weights(logits, there)
    found = keras.ops.convert_to_numpy(layer(FIELDS, present=present))
    assert_close(found, (shares[..., None] * pairs).sum(axis=-2))
    assert not found[0, 0].any()


def test_one_field_has_no_pairs() -> None:
    with pytest.raises(ValueError, match=r"at least two fields.*\(2, 1, 4\)"):
        PairProducts()(FIELDS[0, :2, :1])
