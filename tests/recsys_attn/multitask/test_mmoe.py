"""MMoE equals the paper's equations, and its gates see what they should see."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Dense
from recsys_attn.multitask import AttentionGate, Experts, MMoE
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.references.gates import mean_cosine
from tests.support.refusals import refusals

B, T, D, E, U, TASKS = 2, 3, 5, 7, 11, 4
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
GATES = ("softmax", "attention", "both")
SCORES = ("dot", "scaled_dot", "additive", "general", "cosine")


def mmoe(gate: str = "softmax", **kwargs: Any) -> MMoE:
    layer = MMoE(TASKS, E, (6, U), gate=gate, **kwargs)
    layer.build(X.shape)
    return layer


def numpy(weight: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(weight).astype("float64")


def expected_logits(layer: MMoE, x: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """(T, E), by the formulas of the gates."""
    logits = np.zeros((TASKS, E))
    if layer.gate != "attention":
        kernels = np.split(numpy(layer.input_gate.kernel), TASKS, axis=1)
        logits += [x @ kernel for kernel in kernels]
    if layer.gate != "softmax":
        queries = numpy(layer.attention_gate.queries)
        logits += reference.dot(queries[None, :, None], experts[None, :, None], scale=True)[0, 0]
    return logits


@pytest.mark.parametrize("gate", GATES)
def test_layer_equals_the_paper(gate: str) -> None:
    layer = mmoe(gate)
    output, gates = layer(X, return_gates=True)
    kernels = [numpy(kernel) for kernel in layer.experts.kernels]
    biases = [numpy(bias) for bias in layer.experts.biases]
    for index in np.ndindex(B, T):
        x = X[index].astype("float64")
        wanted, wanted_gates = reference.mixture(
            x, kernels, biases, lambda experts, x=x: expected_logits(layer, x, experts)
        )
        np.testing.assert_allclose(gates[index], wanted_gates, rtol=1e-4, atol=1e-6)
        assert_close(output[index], wanted)


@pytest.mark.parametrize("gate", GATES)
def test_gates_of_a_task_sum_to_one_over_the_experts(gate: str) -> None:
    _, gates = mmoe(gate)(X, return_gates=True)
    assert gates.shape == (B, T, TASKS, E)
    np.testing.assert_allclose(np.sum(gates, axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_attention_gate_equals_dense_attention_of_each_row(score: str) -> None:
    experts = np.random.default_rng(1).normal(size=(B, E, U)).astype("float32")
    bias = np.random.default_rng(2).normal(size=(B, TASKS, E)).astype("float32")
    gate = AttentionGate(TASKS, Dense(score))
    output, gates = gate(experts, bias=bias)
    queries = numpy(gate.queries).astype("float32")[None, :, None]
    for row in range(B):
        logits = np.asarray(gate.mechanism.score(queries, experts[None, row, :, None]))[0, 0]
        expected = reference.softmax_weights(logits.astype("float64") + bias[row])
        np.testing.assert_allclose(gates[row], expected, rtol=1e-4, atol=1e-6)
        assert_close(output[row], expected @ experts[row])


@pytest.mark.parametrize("gate", GATES)
def test_every_expert_and_every_gate_starts_different(gate: str) -> None:
    layer = mmoe(gate)
    parts = [numpy(kernel) for kernel in layer.experts.kernels]
    if gate != "attention":
        parts.append(np.array(np.split(numpy(layer.input_gate.kernel), TASKS, axis=1)))
    if gate != "softmax":
        parts.append(numpy(layer.attention_gate.queries))
    for part in parts:
        for first in range(len(part)):
            for second in range(first):
                assert np.abs(part[first] - part[second]).max() > 0.01


@pytest.mark.parametrize("gate", GATES)
def test_a_closed_expert_is_out_of_every_mix(gate: str) -> None:
    layer = MMoE(TASKS, gate=gate, experts=Experts(E, (6, U), gate="hard_concrete"))
    layer.build(X.shape)
    shares = np.array([0, 1, 0.6, 0, 1, 0.3, 1])
    stretched = np.clip((shares + 0.1) / 1.2, 1e-4, 1 - 1e-4)
    layer.experts.gate.log_alpha.assign(np.log(stretched / (1 - stretched)))
    shares = numpy(layer.experts.gate.gates())
    np.testing.assert_array_equal(shares == 0, [True, False, False, True, False, False, False])
    output, gates = layer(X, return_gates=True)
    kernels, biases = (
        [numpy(weight) for weight in weights]
        for weights in (layer.experts.kernels, layer.experts.biases)
    )
    x = X[1, 2].astype("float64")
    experts, _ = reference.mixture(x, kernels, biases, lambda _: 1e3 * np.eye(E))  # one each
    experts = shares[:, None] * experts
    logits = np.where(shares == 0, -np.inf, expected_logits(layer, x, experts))
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(gates[1, 2], weights, rtol=1e-4, atol=1e-6)
    assert_close(output[1, 2], weights @ experts)


def test_a_mix_of_closed_experts_is_zero() -> None:
    layer = MMoE(TASKS, experts=Experts(E, (U,), gate="hard_concrete"))
    layer.build(X.shape)
    layer.experts.gate.log_alpha.assign(np.full(E, -9.0))
    np.testing.assert_array_equal(layer(X), np.zeros((B, T, TASKS, U)))


def test_disagreement_of_experts_leaves_padded_rows_out() -> None:
    layer = MMoE(TASKS, experts=Experts(E, (U,), disagreement={"outputs": 0.3}))
    where = np.array([[True, False, True], [True, True, False]])
    layer(X, where=where, training=True)
    (penalty,) = layer.losses
    rows = numpy(layer.experts(X.reshape(-1, D))).transpose(1, 0, 2)[None]
    expected = 0.3 * mean_cosine(rows, where.reshape(1, -1))
    assert float(penalty) == pytest.approx(expected, rel=1e-5)


def test_han_gives_each_task_a_context_vector() -> None:
    layer = mmoe("attention", mechanism="han")
    rng = np.random.default_rng(3)
    for weight in layer.attention_gate.weights:
        weight.assign(rng.normal(size=weight.shape))
    _, gates = layer(X, return_gates=True)
    score = layer.attention_gate.mechanism.score
    kernel, bias, queries = map(numpy, (score.kernel, score.bias, layer.attention_gate.queries))
    for index in np.ndindex(B, T):
        experts = numpy(layer.experts(X[index][None]))[:, 0]
        logits = [
            [query @ np.tanh(kernel[0] @ expert + bias[0]) for expert in experts]
            for query in queries
        ]
        expected = reference.softmax_weights(np.array(logits))
        np.testing.assert_allclose(gates[index], expected, rtol=1e-4, atol=1e-6)
        assert np.ptp(expected, axis=0).max() > 0.1  # tasks differ


POSITIONAL = ["alibi", "hstu", "t5", "transformer_xl", "sparse_transformer", "local", "longformer"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [*POSITIONAL, Dense(pattern="causal")], ids=str)
def test_the_order_of_the_tasks_changes_nothing(mechanism: Any) -> None:
    layer = MMoE(7, 3, (6, U), gate="attention", mechanism=mechanism)  # more tasks than experts
    layer.build(X.shape)
    rng = np.random.default_rng(4)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    before, order = numpy(layer(X)), rng.permutation(7)
    np.testing.assert_array_less(1e-3, np.ptp(before.reshape(B * T, 7, U), axis=0))  # none is blind
    queries = layer.attention_gate.queries
    queries.assign(numpy(queries)[order])
    assert_close(layer(X), before[:, :, order])


@pytest.mark.parametrize(
    "mechanism", ["afm", Dense("random_synthesizer"), "memory_compressed"], ids=str
)
def test_gate_equal_for_all_tasks_is_refused(mechanism: Any) -> None:
    with pytest.raises(ValueError, match=r"would get the same result.*num_tasks=2"):
        MMoE(2, 3, (6, U), gate="attention", mechanism=mechanism)
    with pytest.raises(ValueError, match="would get the same result"):
        AttentionGate(2, mechanism)(np.ones((B, 3, U), "float32"))


def test_one_task_may_have_a_gate_without_a_query() -> None:
    assert MMoE(1, 3, (U,), gate="attention", mechanism="afm")(X).shape == (B, T, 1, U)


def test_experts_start_with_their_own_fan() -> None:
    layer = MMoE(2, 5, (64,))
    layer.build((None, 64))
    limits = np.abs(numpy(layer.experts.kernels[0])).max(axis=(1, 2))
    np.testing.assert_allclose(limits, np.sqrt(6 / 128), rtol=0.02)


def gradients(layer: MMoE, weight: Any) -> np.ndarray:
    """Of a loss that weighs every output differently, by differences."""
    factors = np.random.default_rng(2).normal(size=(B, T, TASKS, U))
    start = numpy(weight)
    slopes = []
    for index in list(np.ndindex(start.shape))[:12]:
        losses = []
        for step in (0.05, -0.05):
            moved = start.copy()
            moved[index] += step
            weight.assign(moved)
            losses.append((numpy(layer(X)) * factors).sum())
        slopes.append((losses[0] - losses[1]) / 0.1)
    weight.assign(start)
    return np.array(slopes)


def with_equal_experts(layer: MMoE) -> MMoE:
    for weight in (*layer.experts.kernels, *layer.experts.biases):
        weight.assign(np.repeat(numpy(weight)[:1], E, axis=0))
    return layer


def test_equal_experts_leave_the_papers_gate_without_a_gradient() -> None:
    layer = mmoe("softmax")
    assert np.abs(gradients(layer, layer.input_gate.kernel)).max() > 0.1
    with_equal_experts(layer)
    np.testing.assert_allclose(gradients(layer, layer.input_gate.kernel), 0, atol=1e-4)


def test_attention_gate_weights_equal_experts_equally() -> None:
    _, gates = with_equal_experts(mmoe("attention"))(X, return_gates=True)
    np.testing.assert_allclose(gates, 1 / E, rtol=1e-5)


@pytest.mark.parametrize(("gate", "depends"), [("softmax", False), ("attention", True)])
def test_which_gate_depends_on_the_experts(gate: str, depends: bool) -> None:
    layer = mmoe(gate)
    before = numpy(layer(X, return_gates=True)[1])
    layer.experts.kernels[0].assign(numpy(layer.experts.kernels[0]) * 2)
    after = numpy(layer(X, return_gates=True)[1])
    assert (np.abs(after - before).max() > 1e-3) == depends


def test_one_expert_is_handed_to_every_task() -> None:
    layer = MMoE(TASKS, 1, (U,), gate="attention")
    output = numpy(layer(X))
    expert = numpy(layer.experts(X.reshape(-1, D)))[0].reshape(B, T, 1, U)
    np.testing.assert_allclose(output, np.repeat(expert, TASKS, axis=2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("leading", [(5,), (2, 3), (2, 1, 3)], ids=str)
def test_any_number_of_leading_axes(leading: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=(*leading, D)).astype("float32")
    layer = mmoe("both")
    output = numpy(layer(x))
    flat = numpy(layer(x.reshape(-1, D)))
    np.testing.assert_allclose(output.reshape(-1, TASKS, U), flat, rtol=1e-5, atol=1e-6)


def test_gates_are_part_of_the_symbolic_output() -> None:
    output, gates = mmoe()(keras.Input((None, D)), return_gates=True)
    assert output.shape == (None, None, TASKS, U)
    assert gates.shape == (None, None, TASKS, E)


def test_dropout_is_active_in_training_only() -> None:
    layer = mmoe(dropout=0.5, activation="sigmoid")
    np.testing.assert_array_equal(layer(X), layer(X))
    assert ops.max(ops.abs(layer(X, training=True) - layer(X))) > 0.01


test_arguments_are_checked = refusals(
    (lambda: MMoE(0), "`num_tasks` must be a positive integer"),
    (lambda: MMoE(2, 0), "`num_experts` must be a positive integer"),
    (lambda: MMoE(2, expert_units=()), "at least one layer of an expert"),
    (lambda: MMoE(2, gate="atention"), "Unknown `gate`.*Did you mean 'attention'"),
    (lambda: MMoE(2, gate="both", mechanism="adition"), "Did you mean 'additive'"),
    (lambda: MMoE(2, mechanism="additive"), "`mechanism` is that of a gate of attention"),
)


def test_gate_both_needs_a_mechanism_with_bias() -> None:
    with pytest.raises(TypeError, match="Linear cannot honour `attention_bias`"):
        MMoE(2, gate="both", mechanism="linear_transformer")
