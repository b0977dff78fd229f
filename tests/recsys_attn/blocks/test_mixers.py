"""Mixers follow their equations, position by position, and know no padding."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.blocks import (
    ConvolutionMixer,
    FourierMixer,
    GatingMixer,
    RecurrentMixer,
    TokenMixer,
    TransformerBlock,
)
from recsys_attn.blocks.mixers import MIXERS
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.references import blocks as reference

B, S, E, LENGTH = 3, 5, 4, 7
RNG = np.random.default_rng(5)
X = RNG.normal(size=(B, S, E)).astype("float32")
PRESENT = np.array([[1] * 5, [1, 1, 1, 0, 0], [0] * 5], bool)
Weights = dict[str, np.ndarray]


def silent(x: np.ndarray) -> np.ndarray:
    """The inputs in float64, zero where nothing is present."""
    return np.where(PRESENT[..., None], x.astype("float64"), 0)


def token_mixer(layer: Any, x: np.ndarray, w: Weights) -> np.ndarray:
    output = np.zeros_like(x)
    for b, e in np.ndindex(B, E):
        hidden = np.maximum(x[b, :, e] @ w["hidden_kernel"][:S] + w["hidden_bias"], 0)
        output[b, :, e] = hidden @ w["output_kernel"][:, :S] + w["output_bias"][:S]
    return output


def fourier_mixer(layer: Any, x: np.ndarray, w: Weights) -> np.ndarray:
    padded = np.concatenate([x, np.zeros((B, LENGTH - S, E))], axis=1)
    return np.fft.fft2(padded, axes=(1, 2)).real[:, :S]


def gating_mixer(layer: Any, x: np.ndarray, w: Weights) -> np.ndarray:
    kernel, bias = layer.hidden.get_weights()
    z = x @ kernel + bias
    z = z * (1 + np.vectorize(_erf)(z / np.sqrt(2))) / 2
    content, gate = np.split(z, 2, axis=-1)
    gate = reference.norm("layer", layer.norm.get_weights())(gate)
    gate = np.where(PRESENT[..., None], gate, 0)
    mixed = np.einsum("ts,bsu->btu", w["gate_kernel"][:S, :S], gate)
    mixed = mixed + w["gate_bias"][:S, None]
    if layer.attention_size:
        kernel, bias = layer.projection.get_weights()
        query, key, value = np.split(x @ kernel + bias, 3, axis=-1)
        for b, t in np.argwhere(PRESENT):
            logits = key[b, PRESENT[b]] @ query[b, t] / np.sqrt(layer.attention_size)
            weights = np.exp(logits - logits.max())
            summed = weights / weights.sum() @ value[b, PRESENT[b]]
            kernel, bias = layer.attended.get_weights()
            mixed[b, t] += summed @ kernel + bias
    kernel, bias = layer.output_layer.get_weights()
    return content * mixed @ kernel + bias


def _erf(x: float) -> float:
    steps = np.linspace(0, x, 2001)
    return float(2 / np.sqrt(np.pi) * np.trapezoid(np.exp(-(steps**2)), steps))


def gru(layer: Any, x: np.ndarray, w: Weights) -> np.ndarray:
    kernel, recurrent, (of_input, of_state) = layer.recurrence.get_weights()
    output = np.zeros_like(x)
    for b in range(B):
        state = np.zeros(E)
        for s in np.flatnonzero(PRESENT[b]):
            z, r, n = np.split(x[b, s] @ kernel + of_input, 3)
            hz, hr, hn = np.split(state @ recurrent + of_state, 3)
            z, r = reference.sigmoid(z + hz), reference.sigmoid(r + hr)
            state = z * state + (1 - z) * np.tanh(n + r * hn)
            output[b, s] = state
    return output


def convolution(layer: Any, x: np.ndarray, w: Weights) -> np.ndarray:
    kernel, bias = layer.convolution.get_weights()
    output = np.zeros_like(x)
    for b, s in np.ndindex(B, S):
        total = bias.astype("float64")
        for k in range(len(kernel)):
            back = len(kernel) - 1 - k if layer.causal else len(kernel) // 2 - k
            place = s - back * layer.dilation
            if 0 <= place < S:
                total = total + x[b, place] @ kernel[k]
        output[b, s] = np.maximum(total, 0)
    return output


CASES = {
    "mlp_mixer": (lambda: TokenMixer(LENGTH, 6, "relu"), token_mixer),
    "fnet": (lambda: FourierMixer(LENGTH), fourier_mixer),
    "gmlp": (lambda: GatingMixer(LENGTH, 6), gating_mixer),
    "amlp": (lambda: GatingMixer(LENGTH, 6, attention_size=3), gating_mixer),
    "gru": (RecurrentMixer, gru),
    "convolution": (ConvolutionMixer, convolution),
    "causal": (lambda: ConvolutionMixer(2, dilation=2, causal=True), convolution),
}


@pytest.mark.parametrize(("make", "equation"), CASES.values(), ids=CASES)
def test_a_mixer_follows_its_equation(make: Any, equation: Any) -> None:
    layer = make()
    layer(X)
    randomise(layer)
    weights = {weight.name: np.asarray(weight, "float64") for weight in layer.weights}
    expected = equation(layer, silent(X), weights) * PRESENT[..., None]
    np.testing.assert_allclose(layer(X, present=PRESENT), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MIXERS.members)
def test_more_padding_changes_nothing(name: str) -> None:
    config = {"length": LENGTH} if name in ("mlp_mixer", "fnet", "gmlp") else {}
    layer = MIXERS.get({"class_name": name, "config": config})
    block = TransformerBlock(layer, 6)
    block(X)
    randomise(block)
    more = np.pad(X, ((0, 0), (0, 2), (0, 0)))
    output = block(more, present=np.pad(PRESENT, ((0, 0), (0, 2))))
    assert_close(output[:, :S], block(X, present=PRESENT))
    np.testing.assert_array_equal(output[:, S:], 0)


CAUSAL = {
    "gmlp": lambda: GatingMixer(LENGTH, 6, causal=True, attention_size=3),
    "gru": RecurrentMixer,
    "convolution": lambda: ConvolutionMixer(causal=True),
}


@pytest.mark.parametrize("make", CAUSAL.values(), ids=CAUSAL)
def test_a_causal_mixer_sees_no_future(make: Any) -> None:
    layer = make()
    layer(X)
    randomise(layer)
    changed = X.copy()
    changed[:, 3:] += 5
    assert_close(layer(changed)[:, :3], np.asarray(layer(X))[:, :3])


def test_a_new_gating_mixer_gates_nothing() -> None:
    layer = GatingMixer(LENGTH, 6)
    layer(X)
    kernel, bias = layer.hidden.get_weights()
    hidden = keras.activations.gelu(X @ kernel + bias)[..., :3]
    assert np.abs(np.asarray(layer(X)) - np.asarray(layer.output_layer(hidden))).max() < 0.02


def test_both_directions_are_two_cells() -> None:
    layer = RecurrentMixer(bidirectional=True)
    layer(X)
    randomise(layer)
    parts = (layer.recurrence.forward, layer.recurrence.backward)
    forward, backward = (part.get_weights() for part in parts)
    output = np.asarray(layer(X))
    one = RecurrentMixer(units=E // 2)
    one.build(X.shape)
    one.recurrence.set_weights(forward)
    assert_close(one.recurrence(X), output[..., :2])
    one.recurrence.set_weights(backward)
    assert_close(np.asarray(one.recurrence(X[:, ::-1].copy()))[:, ::-1], output[..., 2:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenMixer(3)(X), "`length` of at most 3.*Received: 5 positions"),
        (lambda: FourierMixer().build((None, None, E)), "Give `length`"),
        (lambda: GatingMixer(units=5), "`units` must be even"),
        (lambda: RecurrentMixer("gri"), "Did you mean 'gru'"),
        (lambda: MIXERS.get("fnett"), "Did you mean 'fnet'"),
    ],
)
def test_wrong_use_is_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mixer_takes_no_mask_of_pairs() -> None:
    with pytest.raises(TypeError, match="`attention_mask` needs an attention that takes"):
        TransformerBlock(RecurrentMixer())(X, attention_mask=np.ones((B, S, S), bool))
