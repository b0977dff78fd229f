"""Interacting layers of published code: the authors' of AutoInt, BARS's, and DESTINE's."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.interactions import AutoInt, FieldUpdate, InteractingLayer
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.reference import relu, softmax_weights
from tests.support.refusals import refusals

B, F, N, H, V = 3, 5, 2, 7, 3
RNG = np.random.default_rng(0)
MASK = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], bool)
AUTHORS = {"relu": "projections", "norm": "layer"}
FORMS: dict[str, tuple[int, str, dict[str, str]]] = {
    "the authors": (11, "transformer", AUTHORS),
    "BARS, AutoInt": (N * V, "autoint", {"residual": "identity"}),
    "BARS, AutoInt+, another width": (11, "transformer", {"residual": "identity", "norm": "layer"}),
    "BARS, DESTINE": (11, "disentangled", {"relu": "none"}),
    "DESTINE, ReLU before attention": (11, "disentangled", {**AUTHORS, "residual": "none"}),
}


def expected(layer: InteractingLayer, fields: np.ndarray, present: np.ndarray) -> np.ndarray:
    """One row (F, E), one head and one pair after the other."""
    update, wide = layer.update, fields.astype("float64")
    sizes = {"query": N * H, "key": N * H, "unary": N, "value": N * V, "residual": N * V}
    if layer.heads.mechanism.unary_size == 0:
        del sizes["unary"]
    if not layer._projects_residual:
        del sizes["residual"]
    kernel = np.asarray(layer.kernel, "float64")
    bias = np.zeros(kernel.shape[1]) if layer.bias is None else np.asarray(layer.bias, "float64")
    parts, start = {}, 0
    for name, size in sizes.items():
        columns = slice(start, start + size)
        parts[name] = wide @ kernel[:, columns] + bias[columns]
        if update.relu == "projections" and name != "unary":
            parts[name] = relu(parts[name])
        start += size
    assert start == kernel.shape[1]
    total = np.zeros((F, N * V))
    for n in range(N):
        query, key = (parts[name][:, n * H : (n + 1) * H] for name in ("query", "key"))
        weights = pair_weights(layer, query, key, present)
        if "unary" in parts:
            weights = weights + softmax_weights(parts["unary"][None, :, n], present[None])
        for m, k in np.ndindex(F, F):
            columns = slice(n * V, (n + 1) * V)
            total[m, columns] += weights[m, k] * parts["value"][k, columns]
    if update.residual != "none":
        total = total + parts.get("residual", wide)
    if update.relu == "projections":  # in the authors' code ReLU comes once more, before the norm
        total = relu(total)
    if update.norm == "layer":
        gamma, beta = (np.asarray(weight, "float64") for weight in layer.norm.weights)
        centred = total - total.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
        total = centred / deviation * gamma + beta
    return (relu(total) if update.relu == "sum" else total) * present[:, None]


def pair_weights(
    layer: InteractingLayer, query: np.ndarray, key: np.ndarray, present: np.ndarray
) -> np.ndarray:
    mechanism = layer.heads.mechanism
    if mechanism.unary_size:  # whitened: both less their means over the fields that are there
        query, key = query - query[present].mean(axis=0), key - key[present].mean(axis=0)
    scale = mechanism.scale if mechanism.unary_size else mechanism.score.scale
    logits = np.array([[q @ k for k in key] for q in query]) / (np.sqrt(H) if scale else 1)
    return softmax_weights(logits, np.broadcast_to(present, logits.shape))


@pytest.mark.parametrize("form", FORMS)
def test_layer_equals_the_published_code(form: str) -> None:
    width, mechanism, update = FORMS[form]
    fields = RNG.normal(size=(B, F, width)).astype("float32")
    layer = InteractingLayer(N, [H, V], mechanism, update)
    layer(fields)
    randomise(layer)
    for mask in (MASK, np.ones_like(MASK)):
        found = keras.ops.convert_to_numpy(layer(fields, field_mask=mask))
        for row in range(B):
            assert_close(found[row], expected(layer, fields[row], mask[row]))


@pytest.mark.parametrize("mechanism", ["transformer", "disentangled"])
def test_heads_are_layers_of_one_head_side_by_side(mechanism: str) -> None:
    """Heads and fields are not mixed up."""
    fields = RNG.normal(size=(B, F, 11)).astype("float32")
    layer = InteractingLayer(N, H, mechanism, {"relu": "none"})
    layer(fields)
    randomise(layer)
    found = keras.ops.convert_to_numpy(layer(fields, field_mask=MASK))
    per_head = [size // N for size in layer._part_sizes.values()]
    for n in range(N):
        own = np.concatenate(
            [
                np.arange(size) + N * sum(per_head[:index]) + n * size
                for index, size in enumerate(per_head)
            ]
        )
        single = InteractingLayer(1, H, mechanism, {"relu": "none"})
        single(fields)
        single.set_weights([np.asarray(weight)[..., own] for weight in layer.get_weights()])
        assert_close(single(fields, field_mask=MASK), found[..., n * H : (n + 1) * H])


@pytest.mark.parametrize(
    ("layers", "heads", "mechanism", "update", "weights"),
    [
        (6, 4, "autoint", {"residual": "identity"}, 250_880),
        (5, 4, "transformer", {"residual": "identity", "norm": "layer"}, 203_008),
        (4, 1, "disentangled", {"relu": "none"}, 204_174),
    ],
    ids=["AutoInt", "AutoInt+", "DESTINE"],
)
def test_layers_have_as_many_weights_as_those_of_bars(
    layers: int, heads: int, mechanism: str, update: Any, weights: int
) -> None:
    """Those of Frappe_x1, of its logs: 306,051, 622,180 and 623,346 less embeddings and MLP."""
    stack = AutoInt(layers, heads, 128 // heads, mechanism, update)
    stack.build((None, 10, 10))
    assert stack.count_params() == weights


def test_an_update_goes_into_the_config_of_every_layer() -> None:
    stack = AutoInt(2, N, H, update=FieldUpdate(norm="rms"))
    again = AutoInt.from_config(stack.get_config())
    assert [layer.update for layer in again.layers] == [FieldUpdate(norm="rms")] * 2


test_wrong_updates_are_refused = refusals(
    (
        lambda: InteractingLayer(update={"norm": "batch"}),
        r"`update.norm` must be a name.*\['layer', 'none', 'rms'\]. Received: 'batch'",
    ),
    (lambda: FieldUpdate(relu="summ"), "`update.relu` must be a name.*Did you mean 'sum'"),
    (lambda: FieldUpdate.of({"residul": "none"}), "no key 'residul'.*Did you mean 'residual'"),
    (lambda: AutoInt(update=True), "`update` must be a table.*Received: update=True"),
)
