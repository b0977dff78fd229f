"""The interacting layer equals the paper's equations, one field and one head at a time."""

from __future__ import annotations

import itertools
import json
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.gates import HardConcrete
from recsys_attn.interactions import AutoInt, InteractingLayer
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.refusals import refusals

B, T, F, E, N, H = 2, 3, 5, 7, 2, 11
RNG = np.random.default_rng(0)
FIELDS = RNG.normal(size=(B, T, F, E)).astype("float32")
MASK = RNG.random((B, T, F)) < 0.6


def expected(layer: InteractingLayer, fields: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    projected = layer.update.residual == "projected"
    sizes = [N * layer.head_dim] * 2 + [N * layer.value_dim] * (1 + projected)
    kernels = np.split(layer.get_weights()[0].astype("float64"), np.cumsum(sizes)[:-1], axis=1)
    output = np.zeros((*fields.shape[:-1], N * layer.value_dim))
    for index in np.ndindex(fields.shape[:-2]):
        output[index] = reference.interacting_layer(
            fields[index],
            kernels,
            N,
            scale=layer.heads.mechanism.score.scale,
            field_mask=None if mask is None else mask[index],
        )
    return output


@pytest.mark.parametrize("mask", [None, MASK], ids=["all fields", "missing fields"])
@pytest.mark.parametrize("mechanism", ["autoint", "transformer"])
@pytest.mark.parametrize("update", [None, {"residual": "none"}], ids=["residual", "no residual"])
def test_layer_equals_the_paper(update: Any, mechanism: str, mask: np.ndarray | None) -> None:
    layer = InteractingLayer(N, H, mechanism, update)
    output = layer(FIELDS, field_mask=mask)
    assert_close(output, expected(layer, FIELDS, mask))


def test_larger_keys_do_not_widen_the_output() -> None:
    layer = InteractingLayer(N, [H, 3])
    output = layer(FIELDS, field_mask=MASK)
    assert output.shape == (B, T, F, N * 3)
    assert_close(output, expected(layer, FIELDS, MASK))
    *keys, values, residual = np.split(
        layer.get_weights()[0], [N * H, 2 * N * H, 2 * N * H + N * 3], axis=1
    )
    for block in (*keys, values, residual):  # each starts with its own fan
        assert np.abs(block).max() == pytest.approx(np.sqrt(6 / sum(block.shape)), rel=0.15)


def test_the_papers_choices_are_the_defaults() -> None:
    layer = InteractingLayer()
    layer.build((None, F, E))
    assert (layer.num_heads, layer.head_dim) == (2, 32)
    assert layer.heads.mechanism.score.scale is False
    # W_Q, W_K, W_V and W_Res; no bias and no output projection.
    assert [weight.shape for weight in layer.weights] == [(E, 4 * 2 * 32)]


def test_every_kernel_starts_different_and_with_its_own_fan() -> None:
    layer = InteractingLayer(2, 32)
    layer.build((None, F, 64))
    blocks = np.split(layer.get_weights()[0], 4, axis=1)
    for block in blocks:
        assert np.abs(block).max() == pytest.approx(np.sqrt(6 / 128), rel=0.02)
    for first in range(4):
        for second in range(first):
            assert np.abs(blocks[first] - blocks[second]).max() > 0.01


def test_stack_equals_its_layers_one_after_the_other() -> None:
    stack = AutoInt(num_layers=3, num_heads=N, head_dim=H)
    output = stack(FIELDS, field_mask=MASK)
    assert output.shape == (B, T, F, N * H)
    fields = FIELDS.astype("float64")
    for layer in stack.layers:
        fields = expected(layer, fields, MASK)
    np.testing.assert_allclose(output, fields, rtol=1e-3, atol=1e-4)


def test_permuted_fields_give_permuted_outputs() -> None:
    order = RNG.permutation(F)
    layer = AutoInt(num_layers=2, num_heads=N, head_dim=H)
    assert_close(layer(FIELDS[:, :, order]), np.asarray(layer(FIELDS))[:, :, order])


@pytest.mark.parametrize("leading", [(5,), (2, 3), (2, 1, 3)], ids=str)
def test_any_number_of_leading_axes(leading: tuple[int, ...]) -> None:
    fields = RNG.normal(size=(*leading, F, E)).astype("float32")
    layer = InteractingLayer(N, H)
    output = np.asarray(layer(fields))
    assert output.shape == (*leading, F, N * H)
    flat = layer(fields.reshape(-1, F, E))
    np.testing.assert_allclose(output.reshape(-1, F, N * H), flat, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "gate", [HardConcrete(seed=3), {"class_name": "hard_concrete", "config": {"seed": 3}}]
)
def test_layers_draw_different_noise_from_one_seed(gate: Any) -> None:
    stack = AutoInt(num_layers=3, num_heads=23, head_dim=2, gate=gate)
    stack.build((None, F, E))
    again = AutoInt.from_config(json.loads(json.dumps(stack.get_config())))
    again.build((None, F, E))
    ones = np.ones((1, 1, 23, 1), "float32")
    drawn, same = (
        [np.asarray(layer.heads.gate(ones, training=True)).ravel() for layer in each.layers]
        for each in (stack, again)
    )
    np.testing.assert_array_equal(drawn, same)
    for first, second in itertools.combinations(drawn, 2):
        assert np.abs(first - second).max() > 0.1
    assert again.get_config() == stack.get_config()
    assert stack.get_config()["gate"]["config"]["seed"] == 3


test_arguments_are_checked = refusals(
    (lambda: InteractingLayer(num_heads=0), "`num_heads` must be a positive integer"),
    (lambda: AutoInt(num_layers=0), "`num_layers` must be a positive integer"),
    (lambda: InteractingLayer()(FIELDS[0, 0]), r"must have shape \(..., F, E\)"),
    (
        lambda: InteractingLayer()(FIELDS[:, 0], field_mask=MASK[:, 0, :-1]),
        "`field_mask` must have the shape of `inputs`",
    ),
    (
        lambda: AutoInt()(keras.Input((F, E)), field_mask=keras.Input((F - 1,), dtype="bool")),
        r"`field_mask` must have .*, \(None, 5\)\. Received: field_mask.shape=\(None, 4\)",
    ),
)
