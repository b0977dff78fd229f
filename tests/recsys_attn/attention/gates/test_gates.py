"""Gates equal their equations; Hard-Concrete closes heads, and is penalised once a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import MultiHeadAttention, gates
from recsys_attn.attention.gates import HardConcrete, OutputGate
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow
from tests.support.references.gates import hard_concrete
from tests.support.refusals import refusals

B, T, N, V, E = 2, 3, 5, 7, 11
RNG = np.random.default_rng(0)
HEADS = RNG.normal(size=(B, T, N, V)).astype("float32")
INPUTS = RNG.normal(size=(B, T, E)).astype("float32")
JIT = "auto" if keras.backend.backend() == "jax" else False


def gate_with(log_alpha: list[float] | np.ndarray, **kwargs: Any) -> HardConcrete:
    gate = HardConcrete(**kwargs)
    gate.build((None, None, len(log_alpha), None))
    gate.set_weights([np.asarray(log_alpha, "float32")])
    return gate


def call(gate: Any, *arrays: np.ndarray, **arguments: Any) -> np.ndarray:
    """The output as an array, on whichever backend runs."""
    return ops.convert_to_numpy(gate(*arrays, **arguments))


def draws(gate: HardConcrete, heads: int) -> np.ndarray:
    """The random gates of one batch."""
    ones = np.ones((1, 1, heads, 1), "float32")
    return call(gate, ones, training=True).ravel()


def test_a_gate_needs_no_more_than_a_call() -> None:
    class Closed(keras.layers.Layer):
        def call(self, heads: Any, inputs: Any) -> Any:
            return heads * 0

    output = MultiHeadAttention(2, 3, gate=Closed(), use_bias=False)(INPUTS)
    np.testing.assert_array_equal(output, np.zeros_like(INPUTS))


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.33, "stretch": (-0.2, 1.3)}], ids=["default", "other"]
)
def test_random_gates_are_open_as_often_as_the_closed_form_says(options: dict[str, Any]) -> None:
    count, log_alpha = 200_000, 0.7
    gate = gate_with(np.full(count, log_alpha), seed=3, **options)
    drawn = draws(gate, count)
    probability = gate.open_probabilities()[0]
    assert np.mean(drawn > 0) == pytest.approx(probability, abs=0.003)
    if not options:
        assert probability == pytest.approx(0.9088, abs=1e-4)
    # Not only whether they are open: the whole distribution is that of the equation.
    u = np.random.default_rng(1).random(count)
    wanted = hard_concrete(u, log_alpha, gate.temperature, gate.stretch)
    levels = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(np.quantile(drawn, levels), np.quantile(wanted, levels), atol=0.02)
    assert np.mean(drawn == 1) == pytest.approx(np.mean(wanted == 1), abs=0.005)


def test_inference_gate_has_no_temperature_and_no_noise() -> None:
    log_alpha = np.array([-5, -1, 0, 1, 5], "float32")
    gate = gate_with(log_alpha)
    expected = np.clip(1.2 / (1 + np.exp(-log_alpha)) - 0.1, 0, 1)
    assert expected[0] == 0
    assert expected[4] == 1
    np.testing.assert_allclose(call(gate, HEADS), HEADS * expected[:, None], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(call(gate, HEADS), call(gate, HEADS, training=False))
    assert gate.open_heads().tolist() == [1, 2, 3, 4]


def test_gates_start_as_if_there_were_none() -> None:
    gate = HardConcrete()
    np.testing.assert_array_equal(call(gate, HEADS, INPUTS), HEADS)
    assert gate.open_heads().tolist() == [0, 1, 2, 3, 4]


def test_each_batch_draws_one_gate_per_head() -> None:
    gate = gate_with(np.zeros(N), seed=1)
    first, second = (call(gate, HEADS, training=True) / HEADS for _ in range(2))
    np.testing.assert_allclose(first, np.broadcast_to(first[:1, :1, :, :1], first.shape), atol=1e-5)
    assert len(np.unique(first[0, 0, :, 0].round(4))) > 1
    assert np.abs(first - second).max() > 0.1


@pytest.mark.parametrize("calls", [1, 2])
def test_penalty_counts_once_per_step(calls: int) -> None:
    gate = HardConcrete(penalty=0.3, initial=0.7)
    inputs = output = keras.Input((T, N, V))
    for _ in range(calls):
        output = gate(output)
    model = keras.Model(inputs, output)
    model.compile("sgd", lambda y, predicted: 0.0 * ops.mean(predicted), jit_compile=JIT)
    history = model.fit(HEADS, np.zeros(B), verbose=0)
    assert history.history["loss"][0] == pytest.approx(0.3 * N * 0.9088, abs=1e-3)
    assert (gate.get_weights()[0] < 0.7).all()  # it closes heads
    assert model.evaluate(HEADS, np.zeros(B), verbose=0) < history.history["loss"][0]


def test_without_a_penalty_nothing_is_added_to_the_loss() -> None:
    gate = HardConcrete()
    gate(HEADS, training=True)
    assert gate.losses == []


def test_training_closes_the_head_that_only_adds_noise() -> None:
    rng = np.random.default_rng(2)
    heads = rng.normal(size=(512, 1, 2, 1)).astype("float32")
    gate = HardConcrete(penalty=0.05, initial=0.7, seed=0)
    inputs = keras.Input((1, 2, 1))
    model = keras.Model(inputs, ops.sum(gate(inputs), axis=(1, 2, 3)))
    model.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=JIT)
    model.fit(heads, heads[:, 0, 0, 0], batch_size=32, epochs=10, verbose=0)
    assert gate.open_heads().tolist() == [0]
    np.testing.assert_allclose(call(gate, heads)[:, 0, 0], heads[:, 0, 0], rtol=0.1)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize(("activation", "normalise"), [("sigmoid", False), ("silu", True)])
def test_output_gate_equals_a_loop_over_heads(
    activation: str, per_channel: bool, normalise: bool
) -> None:
    gate = OutputGate(activation, per_channel, normalise)
    output = call(gate, HEADS, INPUTS)
    (kernel,) = gate.get_weights()
    assert kernel.shape == (N, E, V if per_channel else 1)
    heads = HEADS.astype("float64")
    if normalise:
        flat = heads.reshape(*heads.shape[:2], N * V)
        flat = flat - flat.mean(axis=-1, keepdims=True)
        flat = flat / np.sqrt((flat**2).mean(axis=-1, keepdims=True) + 1e-6)
        heads = flat.reshape(heads.shape)
    for n in range(N):
        x = INPUTS.astype("float64") @ kernel[n]
        by = 1 / (1 + np.exp(-x)) * (x if activation == "silu" else 1)
        assert_close(output[:, :, n], heads[:, :, n] * by)


def test_output_gates_start_different_in_every_head() -> None:
    gate = OutputGate()
    gate.build((None, None, 2, 64), (None, None, 64))
    first, second = gate.get_weights()[0]
    assert np.abs(first - second).max() > 0.01
    assert np.abs(first).max() == pytest.approx(np.sqrt(6 / 128), rel=0.02)


def test_noise_stays_out_of_an_exported_model(tmp_path: Path) -> None:
    tf = tensorflow()
    inputs = keras.Input((None, N, V))
    model = keras.Model(inputs, HardConcrete(penalty=0.1, initial=0.0)(inputs))
    model.export(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export").signatures["serving_default"]
    first, second = (next(iter(served(tf.constant(HEADS)).values())) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, 0.5 * HEADS, rtol=1e-5, atol=1e-6)


test_arguments_are_checked = refusals(
    (lambda: HardConcrete(penalty=-1), "`penalty` must be a finite number of at least 0"),
    (lambda: HardConcrete(temperature=0), "`temperature` must be a finite number above 0"),
    (lambda: HardConcrete(stretch=(0, 1)), r"`stretch\[0\]` must be .* below 0"),
    (lambda: HardConcrete(stretch=(-0.1, 1)), r"`stretch\[1\]` must be .* above 1"),
    (lambda: HardConcrete(stretch=-0.1), "`stretch` must be a list of two"),
    (lambda: HardConcrete(seed=2.5), "`seed` must be an integer"),
    (lambda: HardConcrete()(HEADS[0]), r"must have shape \(B, T, N, V\)"),
    (lambda: OutputGate()(HEADS[0], INPUTS), r"must have shape \(B, T, N, V\)"),
    (lambda: OutputGate("sigmiod"), "Did you mean 'sigmoid'"),
    (lambda: gates.get("hard_concret"), "Did you mean 'hard_concrete'"),
    (
        lambda: OutputGate().build((None, None, N, None), (None, None, E)),
        "must be known when the gate is built",
    ),
)
