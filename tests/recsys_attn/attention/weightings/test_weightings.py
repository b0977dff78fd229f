"""Sigmoid, SiLU, entmax, top-k, talking heads and the Gaussian equal loops and their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Dense, weightings
from recsys_attn.attention.patterns import Causal
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.gradients import gradient
from tests.support.references import weightings as references
from tests.support.refusals import refusals

B, T, S, N, H = 2, 3, 7, 5, 11
SHAPE = (B, N, T, S)
LOGITS = np.random.default_rng(0).normal(scale=2, size=SHAPE).astype("float32")
QUERY = np.random.default_rng(1).normal(size=(B, T, N, H)).astype("float32")
SHAPES_OF_MASKS = (None, SHAPE, (B, 1, T, S), (B, 1, 1, S), (B, 1, T, 1))

ROWS: dict[str, tuple[Callable[[], Any], references.Row]] = {
    "sigmoid": (weightings.Sigmoid, references.sigmoid(0)),
    "sigmoid with a bias": (lambda: weightings.Sigmoid(bias=-1.5), references.sigmoid(-1.5)),
    "silu": (weightings.Silu, references.silu(None)),
    "silu over a length": (lambda: weightings.Silu(length=50), references.silu(50)),
    "sparsemax": (lambda: weightings.get("sparsemax"), references.sparsemax),
    "entmax 1.25": (lambda: weightings.Entmax(1.25), references.entmax(1.25)),
    "entmax 1.5": (weightings.Entmax, references.entmax(1.5)),
    "entmax 3": (lambda: weightings.Entmax(3), references.entmax(3)),
    "top 1": (lambda: weightings.TopK(1), references.top_k(1)),
    "top 3": (lambda: weightings.TopK(3), references.top_k(3)),
}


def call(layer: Any, logits: np.ndarray = LOGITS, **arguments: Any) -> np.ndarray:
    """The weights as an array, on whichever backend runs."""
    return ops.convert_to_numpy(layer(logits, **arguments))


def mask_of(shape: tuple[int, ...] | None) -> tuple[np.ndarray | None, np.ndarray]:
    """A mask, and the same for every logit."""
    allowed = None if shape is None else np.random.default_rng(2).random(shape) < 0.6
    return allowed, np.broadcast_to(True if allowed is None else allowed, SHAPE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", SHAPES_OF_MASKS, ids=str)
@pytest.mark.parametrize(("make", "row"), ROWS.values(), ids=ROWS)
def test_weights_equal_a_loop_over_rows(
    make: Callable[[], Any], row: references.Row, shape: tuple[int, ...] | None
) -> None:
    allowed, everywhere = mask_of(shape)
    weights = call(make(), allowed=allowed)
    expected = references.by_row(row, LOGITS.astype("float64"), everywhere)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=2e-6)
    np.testing.assert_array_equal(weights[~everywhere], 0)


@pytest.mark.parametrize("shape", SHAPES_OF_MASKS, ids=str)
@pytest.mark.parametrize("inner", ["softmax", "sigmoid"])
def test_talking_heads_equal_loops_over_heads(inner: str, shape: tuple[int, ...] | None) -> None:
    allowed, everywhere = mask_of(shape)
    layer = weightings.TalkingHeads(inner)
    layer.build(SHAPE)
    kernels = np.random.default_rng(3).normal(size=(2, N, N)).astype("float32")
    layer.set_weights(list(kernels))
    row = {"softmax": reference.softmax, "sigmoid": references.sigmoid(0)}[inner]
    expected = references.talking_heads(row, LOGITS.astype("float64"), everywhere, *kernels)
    assert_close(call(layer, allowed=allowed), expected)


@pytest.mark.parametrize("shape", SHAPES_OF_MASKS, ids=str)
def test_attention_sink_equals_one_more_key(shape: tuple[int, ...] | None) -> None:
    allowed, everywhere = mask_of(shape)
    layer = weightings.AttentionSink()
    layer.build(SHAPE)
    sink = np.array([-2.0, 0.0, 1.0, 3.0, 40.0], "float32")
    layer.set_weights([sink])
    expected = references.attention_sink(LOGITS.astype("float64"), everywhere, sink)
    assert_close(call(layer, allowed=allowed), expected, atol=1e-6)
    layer.set_weights([np.full(N, -1e6)])  # out of reach, it takes nothing
    assert_close(call(layer, allowed=allowed), call(weightings.Softmax(), allowed=allowed))


def test_a_fixed_sink_stays_at_zero() -> None:
    layer = weightings.AttentionSink(trainable=False)
    weights = call(layer)
    assert not weightings.AttentionSink.from_config(layer.get_config()).trainable
    assert not layer.trainable_weights
    exponentials = np.exp(LOGITS.astype("float64"))
    assert_close(weights, exponentials / (1 + exponentials.sum(-1, keepdims=True)))


@pytest.mark.parametrize("inner", ["softmax", "entmax", "silu"])
def test_talking_heads_start_as_the_weighting_itself(inner: str) -> None:
    allowed, _ = mask_of(SHAPE)
    expected = call(weightings.get(inner), allowed=allowed)
    weights = call(weightings.TalkingHeads(inner), allowed=allowed)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES_OF_MASKS, ids=str)
@pytest.mark.parametrize("units", [None, 4])
def test_gaussian_equals_a_loop_over_pairs(
    units: int | None, shape: tuple[int, ...] | None
) -> None:
    allowed, everywhere = mask_of(shape)
    layer = weightings.Gaussian(width=3, units=units)
    weights = call(layer, allowed=allowed, query=QUERY)
    kernel, vector = layer.get_weights()
    assert kernel.shape == (N, H, units or H)
    expected = references.gaussian(
        reference.softmax, LOGITS.astype("float64"), everywhere, QUERY, kernel, vector, 3
    )
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)


def test_a_key_outside_the_window_has_no_weight_and_no_share() -> None:
    """Luong's alignment is a softmax over `[p - D, p + D]`, not over the whole source."""
    layer = weightings.Gaussian(width=1)
    weights = np.asarray(call(layer, query=QUERY))
    layer.vector.assign(np.zeros(layer.vector.shape))  # p = S / 2 for every query
    weights = np.asarray(layer(LOGITS, query=QUERY))
    inside = [s for s in range(S) if abs(s - S / 2) <= 1]
    assert 0 < len(inside) < S
    assert not np.delete(weights, inside, axis=-1).any()
    bell = np.exp(-((np.array(inside) - S / 2) ** 2) / (2 * 0.5**2))
    np.testing.assert_allclose(np.sum(weights[..., inside] / bell, axis=-1), 1, rtol=1e-5)


def test_a_wide_gaussian_is_the_weighting_itself() -> None:
    weights = call(weightings.Gaussian("entmax", width=1e5), query=QUERY)
    np.testing.assert_allclose(weights, call(weightings.get("entmax")), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["behind", "in front"])
def test_padding_moves_no_gaussian_and_no_silu(padding: str) -> None:
    behind = padding == "behind"
    width = ((0, 0), (0, 0), (0, 0), (0, 4) if behind else (4, 0))
    real = slice(None, S) if behind else slice(4, None)
    padded, allowed = np.pad(LOGITS, width), np.pad(np.ones((B, 1, 1, S), bool), width)
    for layer, query in ((weightings.Gaussian(), {"query": QUERY}), (weightings.Silu(), {})):
        alone = call(layer, **query)
        together = call(layer, padded, allowed=allowed, **query)
        np.testing.assert_allclose(together[..., real], alone, rtol=1e-5, atol=1e-7)


def test_a_causal_gaussian_sees_nothing_of_the_future() -> None:
    events = np.random.default_rng(3).normal(size=(B, S, N, H)).astype("float32")
    layer = Dense(pattern=Causal(), weighting="gaussian")
    together, alone = layer(events, events, events)[0], layer(*[events[:, :3]] * 3)[0]
    np.testing.assert_allclose(together[:, :3], alone, rtol=1e-5, atol=1e-6)


def test_wrappers_pass_the_query_on() -> None:
    assert weightings.Gaussian().needs_query
    assert not weightings.get("talking_heads").needs_query
    inner = weightings.Gaussian(weightings.Sigmoid(-1.0), width=2)
    talking = weightings.TalkingHeads(inner)
    assert talking.needs_query
    weights = call(talking, query=QUERY)
    np.testing.assert_allclose(weights, call(inner, query=QUERY), rtol=1e-5, atol=1e-7)
    output, _ = Dense(pattern=Causal(), weighting=talking)(QUERY, QUERY, QUERY)
    assert tuple(output.shape) == QUERY.shape


def test_entmax_close_to_one_is_close_to_the_softmax() -> None:
    allowed, _ = mask_of(SHAPE)
    expected = call(weightings.Softmax(), allowed=allowed)
    errors = [
        np.abs(call(weightings.Entmax(alpha), allowed=allowed) - expected).max()
        for alpha in (1.1, 1.01, 1.001)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("keys", [1, 2, 1000])
def test_entmax_sums_to_one_whatever_the_size(keys: int, alpha: float) -> None:
    rng = np.random.default_rng(4)
    logits = np.stack([rng.normal(scale=scale, size=(13, keys)) for scale in (0, 1, 100)])
    logits = np.concatenate([logits, logits - 1e6, logits + 1e6]).astype("float32")
    weights = call(weightings.Entmax(alpha), logits)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(weights[0], 1 / keys, rtol=1e-4)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 3.0])
def test_the_gradient_of_entmax_is_that_of_finite_differences(alpha: float) -> None:
    rng = np.random.default_rng(5)
    logits, factors = rng.normal(size=(2, 13, 5))
    allowed = rng.random((13, 5)) < 0.8
    allowed[0] = False
    layer = weightings.Entmax(alpha)
    actual = gradient(
        lambda x: ops.multiply(layer(x, allowed=allowed), factors.astype("float32")),
        logits.astype("float32"),
    )

    def loss(x: np.ndarray) -> np.ndarray:
        return (references.by_row(references.entmax(alpha), x, allowed) * factors).sum(-1)

    step = 1e-6
    for column, shift in enumerate(step * np.eye(5)):
        expected = (loss(logits + shift) - loss(logits - shift)) / (2 * step)
        np.testing.assert_allclose(actual[:, column], expected, rtol=1e-3, atol=1e-3)


def test_top_k_of_all_keys_is_the_softmax_and_ties_all_count() -> None:
    allowed, _ = mask_of(SHAPE)
    expected = call(weightings.Softmax(), allowed=allowed)
    np.testing.assert_array_equal(call(weightings.TopK(S), allowed=allowed), expected)
    np.testing.assert_array_equal(call(weightings.TopK(S + 1), allowed=allowed), expected)
    weights = call(weightings.TopK(2), np.array([[2.0, 2.0, 1.0, 2.0]]))
    np.testing.assert_allclose(weights, [[1 / 3, 1 / 3, 0, 1 / 3]], rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["sigmoid", "silu", "entmax", "sparsemax", "top_k", "attention_sink"]
)
def test_large_logits_and_empty_rows_stay_finite(name: str) -> None:
    allowed, _ = mask_of(SHAPE)
    allowed[0] = False
    layer = weightings.get(name)
    logits = (LOGITS * 1e4).astype("float32")
    weights = call(layer, logits, allowed=allowed)
    assert np.isfinite(weights).all()
    np.testing.assert_array_equal(weights[~allowed], 0)
    slopes = gradient(lambda x: layer(x, allowed=allowed), logits)
    assert np.isfinite(slopes).all()
    np.testing.assert_array_equal(slopes[~allowed], 0)


test_arguments_are_checked = refusals(
    (lambda: weightings.Silu(length=0), "`length` must be a positive integer"),
    (lambda: weightings.TopK(0), "`k` must be a positive integer"),
    (lambda: weightings.Entmax(1), r"use the weighting 'softmax' .* Received: alpha=1"),
    (lambda: weightings.Gaussian(width=0.5), "`width` must be a finite number of at least 1"),
    (lambda: weightings.Gaussian(units=0), "`units` must be a positive integer"),
    (lambda: weightings.Gaussian()(LOGITS), "give `query` of shape"),
    (lambda: weightings.TalkingHeads()(LOGITS[0]), r"must have shape \(B, N, T, S\)"),
    (lambda: weightings.AttentionSink()(LOGITS[0]), r"must have shape \(B, N, T, S\)"),
    (lambda: weightings.TalkingHeads("sigmiod"), "Did you mean 'sigmoid'"),
    (lambda: weightings.get(keras.layers.Softmax()), "Expected a weighting as a name"),
)
