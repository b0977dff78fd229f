"""Target attention equals DIN's equations, and its weights keep the strength of an interest."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.attention import presets
from recsys_attn.interactions import TargetAttention
from tests.support import reference
from tests.support.arrays import assert_close

B, T, S, E = 2, 3, 5, 7
RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(B, T, E)).astype("float32")
HISTORY = RNG.normal(size=(B, S, E)).astype("float32")
HISTORY_MASK = np.array([[True, True, False, True, False], [True] * 4 + [False]])
QUERY_MASK = np.array([[True, True, False], [True, False, False]])


def activation_unit(layer: TargetAttention) -> np.ndarray:
    """The logits of the layer's MLP of ReLUs, from the blocks in full: (B, 1, T, S)."""
    hidden = reference.activation_unit_inputs(
        QUERY[:, :, None].astype("float64"), HISTORY[:, :, None].astype("float64")
    )
    *inner, kernel, bias = layer.get_weights()
    for inner_kernel, inner_bias in zip(inner[::2], inner[1::2], strict=True):
        hidden = reference.relu(hidden @ inner_kernel + inner_bias)
    return (hidden @ kernel + bias)[..., 0]


@pytest.mark.parametrize(
    ("weighting", "weigh"),
    [("identity", reference.identity_weights), ("softmax", reference.softmax_weights)],
)
def test_layer_equals_the_paper(weighting: str, weigh: object) -> None:
    layer = TargetAttention(presets.interest((8, 4), weighting=weighting))
    output, weights = layer(
        QUERY, HISTORY, history_mask=HISTORY_MASK, query_mask=QUERY_MASK, return_weights=True
    )
    allowed = (QUERY_MASK[:, :, None] & HISTORY_MASK[:, None])[:, None]
    expected = weigh(activation_unit(layer), allowed)
    np.testing.assert_allclose(weights, expected[:, 0], rtol=1e-4, atol=1e-6)
    sums = reference.weighted_sums(expected, HISTORY[:, :, None])[:, :, 0]
    assert_close(output, sums)


def test_the_papers_choices_are_the_defaults() -> None:
    layer = TargetAttention()
    layer(QUERY, HISTORY)
    config = layer.get_config()
    mechanism = config["mechanism"]["config"]
    assert mechanism["score"]["config"]["units"] == [80, 40]
    assert mechanism["score"]["config"]["activation"] == "dice"
    assert mechanism["weighting"]["class_name"] == "Identity"


@pytest.mark.parametrize(("weighting", "factor"), [("identity", 2.0), ("softmax", 1.0)])
def test_twice_the_history_is_twice_the_interest_without_softmax(
    weighting: str, factor: float
) -> None:
    layer = TargetAttention(presets.din(weighting=weighting))
    once = np.asarray(layer(QUERY, HISTORY))
    twice = layer(QUERY, np.concatenate([HISTORY, HISTORY], axis=1))
    assert_close(twice, factor * once)


def test_candidates_do_not_see_each_other() -> None:
    layer = TargetAttention()
    together = np.asarray(layer(QUERY, HISTORY, history_mask=HISTORY_MASK))
    for t in range(T):
        alone = layer(QUERY[:, t : t + 1], HISTORY, history_mask=HISTORY_MASK)
        assert_close(alone, together[:, t : t + 1])


@pytest.mark.parametrize("masked", ["history_mask", "query_mask"])
def test_padding_never_enters_the_statistics_of_dice(masked: str) -> None:
    masks = {"history_mask": HISTORY_MASK, "query_mask": QUERY_MASK}
    inputs = {"query": QUERY, "history": HISTORY}
    changed = {name: array.copy() for name, array in inputs.items()}
    changed[masked.removesuffix("_mask")][~masks[masked]] += 1e3
    layers = [TargetAttention(presets.din((4, 3))) for _ in range(2)]
    for layer in layers:
        layer.build(QUERY.shape, HISTORY.shape)
        layer.set_weights(layers[0].get_weights())
    outputs = [
        np.asarray(layer(**arrays, **masks, training=True))
        for layer, arrays in zip(layers, (inputs, changed), strict=True)
    ]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5, atol=1e-6)
    for first, second in zip(*(layer.get_weights() for layer in layers), strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


def test_empty_history_gives_zeros() -> None:
    nothing = np.zeros_like(HISTORY_MASK)
    for weighting in ("identity", "softmax"):
        layer = TargetAttention(presets.din(weighting=weighting))
        for training in (False, True):
            output = layer(QUERY, HISTORY, history_mask=nothing, training=training)
            np.testing.assert_array_equal(output, 0)


def test_masks_may_be_positional_in_a_symbolic_call() -> None:
    query, history = keras.Input((None, E)), keras.Input((None, E))
    masks = keras.Input((None,), dtype="bool"), keras.Input((None,), dtype="bool")
    assert TargetAttention()(query, history, *masks).shape == (None, None, E)
    _, weights = TargetAttention()(query, history, *masks, return_weights=True)
    assert weights.shape == (None, None, None)


@pytest.mark.parametrize("mechanism", ["din", "alibi"])
def test_masks_that_do_not_fit_are_refused_by_their_names(mechanism: str) -> None:
    layer = TargetAttention(mechanism)
    with pytest.raises(ValueError, match=r"`history_mask` must have shape \(B, S\) with B="):
        layer(QUERY, HISTORY, history_mask=HISTORY_MASK[:, 1:])
    query, history = (keras.Input(x.shape[1:]) for x in (QUERY, HISTORY))
    shorter = keras.Input((HISTORY.shape[1] - 1,), dtype="bool")
    with pytest.raises(ValueError, match=r"`history_mask` must have shape \(B, S\) with S="):
        layer(query, history, history_mask=shorter)


def test_masks_from_keras_count() -> None:
    embedding = keras.layers.Embedding(11, E, mask_zero=True)
    query, history = np.array([[3, 4, 0]]), np.array([[5, 6, 7, 0, 0]])
    layer = TargetAttention()
    found = layer(embedding(query), embedding(history))
    given = layer(
        np.asarray(embedding(query)),
        np.asarray(embedding(history)),
        query_mask=query != 0,
        history_mask=history != 0,
    )
    np.testing.assert_allclose(found, given, rtol=1e-5, atol=1e-7)
