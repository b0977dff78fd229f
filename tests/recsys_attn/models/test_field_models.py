"""FiBiNET, MaskNet, FinalMLP and FinalNet equal the papers' sums over their parts."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.models.averaged_heads import AveragedHeads
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Schema, Task
from tests.support import reference
from tests.support.arrays import Array, assert_close, normal
from tests.support.field_models import (
    FEATURES,
    FIELDS,
    INPUTS,
    TASKS,
    B,
    T,
    fields_of,
    random_model,
)


def logits(model: RankingModel, **options: Any) -> Array:
    found = model(INPUTS, **options).values()
    return np.stack([keras.ops.convert_to_numpy(logit) for logit in found], axis=-1)


def numbers(weights: Any) -> list[Array]:
    return [np.asarray(weight, "float64") for weight in weights]


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def relu_layer(x: Array, weights: Any) -> Array:
    kernel, bias = numbers(weights)
    return reference.relu(x @ kernel + bias)


def linear_head(model: RankingModel, x: Array) -> Array:
    """The logits of all tasks, (B, T, tasks)."""
    heads = [dense.weights for dense in model.tower.head._logits.values()]
    return np.concatenate([x @ kernel + bias for kernel, bias in map(numbers, heads)], axis=-1)


def products(vectors: Array, matrix: Array) -> list[Array]:
    pairs = itertools.combinations(range(len(FIELDS)), 2)
    return [vectors[..., i, :] @ matrix * vectors[..., j, :] for i, j in pairs]


@pytest.mark.parametrize("shared", [False, True])
def test_fibinet_is_the_papers(shared: bool) -> None:
    options = {"kind": "all", "shared_matrices": shared, "mlp_units": (5,), "dropout": 0.0}
    model = random_model("fibinet", "two", width=3, **options)
    linear, vectors = fields_of(model, linear=2)
    streams = [stream.fields for stream in model.tower.interaction.streams]
    if shared:
        [[both, bilinear]] = streams
        plain, senet = bilinear, both.layer
    else:
        [[plain], [senet, bilinear]] = streams
    squeeze, excite = numbers(senet.weights)
    weights = reference.relu(reference.relu(vectors.mean(axis=-1) @ squeeze) @ excite)
    (own,) = numbers(plain.weights)
    (other,) = numbers(bilinear.weights)
    found = products(vectors, own) + products(vectors * weights[..., None], other)
    (network,) = model.tower.interaction.layers
    hidden = relu_layer(np.concatenate(found, axis=-1), network.weights)
    assert_close(logits(model), linear.sum(axis=-2) + linear_head(model, hidden))


@pytest.mark.parametrize("structure", ["parallel", "serial"])
def test_masknet_has_a_network_over_blocks_in_parallel_only(structure: str) -> None:
    model = models.masknet(
        Schema(FEATURES, TASKS["two"]), width=3, structure=structure, block_units=(4, 2)
    )
    (stream,) = model.tower.interaction.streams
    (network,) = stream.layers
    assert network.units == ((400, 400, 400) if structure == "parallel" else ())
    size = stream.fields[0].compute_output_shape((B, T, len(FIELDS), 3))[-1]
    assert size == {"parallel": 6, "serial": 2}[structure]


def test_finalmlp_is_the_papers() -> None:
    options = {"first_units": (6,), "second_units": (4,), "num_heads": 2}
    gates = {"first": ("user", "tags"), "units": (5,)}
    model = random_model("finalmlp", "two", width=3, feature_gates=gates, **options)
    _, vectors = fields_of(model, linear=0)
    flat = vectors.reshape(B, T, -1)
    first, second = model.tower.interaction.streams
    kernel, bias, *inner = first.fields[0].weights
    named = [vectors[..., FIELDS.index(name), :] for name in ("user", "tags")]
    hidden = relu_layer(np.concatenate(named, axis=-1), inner)
    opened = hidden @ np.asarray(kernel, "float64") + np.asarray(bias).reshape(-1)
    one = relu_layer(2 * sigmoid(opened) * flat, first.layers[0].weights)
    (constant,) = numbers(second.fields[0].weights)
    two = relu_layer(2 * sigmoid(constant.reshape(-1)) * flat, second.layers[0].weights)
    (fusion,) = model.tower.interaction.layers
    (offsets,) = numbers(model.tower.head.weights)
    dense, dense_bias = numbers(fusion.linear.weights)
    expected = np.concatenate([one, two], axis=-1) @ dense + dense_bias + offsets
    forms = np.asarray(fusion.kernel, "float64").reshape(3, 2, 2, 2)
    for head, task in np.ndindex(2, 2):
        x, y = one[..., 3 * head : 3 * head + 3], two[..., 2 * head : 2 * head + 2]
        expected[..., task] += ((x @ forms[:, head, task]) * y).sum(axis=-1)
    assert_close(logits(model), expected, rtol=1e-3)


def finalnet(tasks: str, **options: Any) -> RankingModel:
    given = {"first_units": (4, 2), "second_units": (6,), "field_gate": True, "norm": "none"}
    return random_model("finalnet", tasks, width=3, **{**given, **options})


def final(x: Array, network: Any) -> Array:
    for layer in network.dense:
        kernel, bias = numbers(layer.weights)
        hidden, factors = np.split(x @ kernel + bias, 2, axis=-1)
        x = reference.relu(np.concatenate([hidden, hidden * factors], axis=-1))
    return x


def finalnet_logits(model: RankingModel) -> list[Array]:
    """The logits of each block, (B, T, tasks)."""
    _, vectors = fields_of(model, linear=0)
    streams = model.tower.interaction.streams
    kernel, bias = numbers(streams[0].fields[0].weights)
    gated = vectors * (np.einsum("ij,btje->btie", kernel, vectors) + bias)
    inputs = [np.concatenate([vectors, gated], axis=-2), vectors]
    found = []
    for x, stream, head in zip(inputs, streams, model.tower.head.heads, strict=False):
        hidden = final(x.reshape(B, T, -1), stream.layers[0])
        heads = [numbers(dense.weights) for dense in head._logits.values()]
        found.append(np.concatenate([hidden @ w + b for w, b in heads], axis=-1))
    return found


def test_finalnet_is_the_mean_of_its_blocks() -> None:
    model = finalnet("two")
    assert_close(logits(model), sum(finalnet_logits(model)) / 2, rtol=1e-3)
    assert not model.losses


def test_finalnet_of_one_block_adds_no_loss() -> None:
    model = finalnet("one", second_units=())
    (expected,) = finalnet_logits(model)
    assert_close(logits(model, training=True), expected, rtol=1e-3)
    assert not model.losses


def crossentropy(target: Array, logit: Array) -> float:
    p, q = sigmoid(target), sigmoid(logit)
    return float(-(p * np.log(q) + (1 - p) * np.log(1 - q)).mean())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("loss", "taught"),
    [("cross_entropy", True), ({"name": "cross_entropy", "smoothing": 0.1}, True), ("bpr", False)],
)
def test_finalnet_teaches_tasks_of_cross_entropy(loss: Any, taught: bool) -> None:
    head = models.finalnet(Schema(FEATURES, (Task("click", loss=loss),)), width=3).tower.head
    assert head.distillation == ({"click": 1.0} if taught else {})


def test_the_blocks_of_finalnet_learn_from_their_mean() -> None:
    (vector,) = normal((2, 3, 5))
    mask = np.array([[True, True, False], [True, False, False]])
    head = AveragedHeads(["click", "buy"], (2, 3), {"click": 0.5})
    mean = np.asarray(head(vector)["click"])[mask]
    assert not head.losses
    head(vector, row_mask=mask, training=True)
    each = [h(x)["click"] for h, x in zip(head.heads, np.split(vector, [2], -1), strict=True)]
    expected = [0.5 * crossentropy(mean, np.asarray(own, "float64")[mask]) for own in each]
    np.testing.assert_allclose([float(loss) for loss in head.losses], expected, rtol=1e-5)
    other = vector.copy()
    other[~mask] += 9
    head(other, row_mask=mask, training=True)
    np.testing.assert_allclose([float(loss) for loss in head.losses], expected, rtol=1e-5)


def test_finalnet_teaches_tasks_of_probabilities_with_their_weight() -> None:
    tasks = (Task("click", weight=2.0), Task("order", loss="bpr"))
    model = models.finalnet(Schema(FEATURES, tasks), width=3, first_units=(4,), second_units=(2,))
    assert model.tower.head.distillation == {"click": 2.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_gates": {"first": ("usr",)}}, "`feature_gates.first` .*Did you mean 'user'"),
        ({"feature_gates": {"first": "user"}}, "`feature_gates.first`: expected a list of"),
        ({"second_units": ()}, "`second_units`: expected at least one layer"),
        ({"num_heads": 3}, "`num_heads` must divide"),
    ],
)
def test_finalmlp_refuses_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.finalmlp(Schema(FEATURES, TASKS["one"]), **options)


def test_networks_without_gates_take_features_of_other_widths() -> None:
    wide = Schema((*FEATURES, Categorical("brand", size=4, width=6)), TASKS["one"])
    given = INPUTS | {"brand": np.ones((B, T), "int32")}
    small = {"width": 3, "first_units": (4,), "second_units": (2,)}
    assert models.finalmlp(wide, feature_gates={"active": False}, **small)(given)[
        "click"
    ].shape == (B, T)
    assert models.finalnet(wide, **small)(given)["click"].shape == (B, T)
    with pytest.raises(ValueError, match="ContextGate needs fields of one width"):
        models.finalmlp(wide, **small)


def test_an_empty_first_block_and_a_wrong_head_are_refused() -> None:
    with pytest.raises(ValueError, match="`first_units`: expected at least one layer"):
        models.finalnet(Schema(FEATURES, TASKS["one"]), first_units=())
    with pytest.raises(ValueError, match=r"must have the sum of `sizes`, 5"):
        AveragedHeads(["click"], (2, 3))(np.ones((1, 2, 4), "float32"))
    with pytest.raises(ValueError, match="Did you mean 'click'"):
        AveragedHeads(["click"], (2,), {"clik": 1.0})
