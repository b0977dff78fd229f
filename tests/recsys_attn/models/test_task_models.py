"""What the models of several tasks are made of: products, penalties, gates, parts of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.embeddings import CANDIDATE_MASK
from recsys_attn.models.gated_fields import GatedFields
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.support.arrays import assert_close, numpy, weights_of
from tests.support.gradients import gradient, numeric
from tests.support.layer_case import randomise, tensorflow
from tests.support.references.blocks import sigmoid

B, T, S = 3, 2, 5
SCHEMA = Schema(
    (
        Categorical("page", "context", size=3),
        Numeric("age", "context", encoding="linear"),
        Categorical("item", size=9),
        Categorical("brand", size=5, width=3),
        Sequence("seen", shares="item", max_length=S),
        Sequence("brands", shares="brand", max_length=S),
    ),
    (Task("click"), Task("cart"), Task("buy")),
)
RNG = np.random.default_rng(0)
INPUTS = {
    "page": np.array([0, 1, 2], "int32"),  # the first is missing
    "age": np.array([0.5, np.nan, -1.0], "float32"),
    "item": RNG.integers(0, 9, (B, T)).astype("int32"),
    "brand": RNG.integers(0, 5, (B, T)).astype("int32"),
    "seen": np.array([[2, 3, 0, 0, 0], [0, 0, 0, 0, 0], [4, 5, 6, 7, 8]], "int32"),
    "brands": np.array([[2, 0, 0, 0, 0], [0, 0, 0, 0, 0], [4, 1, 2, 3, 2]], "int32"),
}


def randomised(model: RankingModel) -> RankingModel:
    randomise(model.embedding)
    randomise(model.tower)
    return model


def arrays(tensors: Any) -> dict[str, np.ndarray]:
    return {name: numpy(tensor).astype("float64") for name, tensor in tensors.items()}


@pytest.fixture
def esmm() -> RankingModel:
    return randomised(models.esmm(SCHEMA, width=4, tower_units=(5,)))


def test_conversion_is_the_product_along_the_chain(esmm: RankingModel) -> None:
    found = arrays(esmm(INPUTS))
    esmm.tower.head.joint = None
    conditional = arrays(esmm(INPUTS))
    product = np.ones((B, T))
    for task in ("click", "cart", "buy"):
        before, product = product, product * sigmoid(conditional[task])
        np.testing.assert_allclose(sigmoid(found[task]), product, rtol=1e-5)
        quotient = sigmoid(found[task]) / before  # the rate given the task before
        np.testing.assert_allclose(quotient, sigmoid(conditional[task]), rtol=1e-5)


def test_esmm_calibrates_the_product_of_the_chain(esmm: RankingModel) -> None:
    logits = arrays(esmm(INPUTS))
    esmm.calibrate({"buy": (0.5, -1.0)})
    scores = arrays(esmm.probabilities(INPUTS))
    capped = np.minimum(sigmoid(0.5 * logits["buy"] - 1.0), sigmoid(logits["cart"]))
    np.testing.assert_allclose(scores["buy"], capped, rtol=1e-5)
    np.testing.assert_allclose(scores["cart"], sigmoid(logits["cart"]), rtol=1e-5)


def test_no_calibrated_task_is_more_probable_than_the_one_before(esmm: RankingModel) -> None:
    logits = arrays(esmm(INPUTS))
    esmm.calibrate({"click": (1.0, -2.0), "cart": (0.8, 0.5), "buy": (1.2, 3.0)})
    assert (1.2 * logits["buy"] + 3.0 > logits["click"] - 2.0).any()
    scores = arrays(esmm.probabilities(INPUTS))
    assert (scores["buy"] <= scores["cart"]).all()
    assert (scores["cart"] <= scores["click"]).all()


def test_products_keep_float32_in_mixed_precision() -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        found = models.esmm(SCHEMA, width=4, tower_units=(5,))(INPUTS)
    finally:
        keras.config.set_dtype_policy(before)
    assert {keras.backend.standardize_dtype(x.dtype) for x in found.values()} == {"float32"}


@pytest.mark.parametrize("name", ["esmm", "aitm"])
def test_tasks_that_cannot_be_compared_are_refused(name: str) -> None:
    make = models.get(name)
    with pytest.raises(ValueError, match=rf"{name} needs at least two tasks.*\['click'\]"):
        make(replace(SCHEMA, tasks=(Task("click"),)))
    with pytest.raises(ValueError, match=r"'cross_entropy'.*the task 'buy': loss='softmax'"):
        make(replace(SCHEMA, tasks=(Task("click"), Task("buy", loss="softmax"))))
    with pytest.raises(ValueError, match=r"'cross_entropy'.*the task 'click': loss='focal'"):
        make(replace(SCHEMA, tasks=(Task("click", loss="focal"), Task("buy"))))
    tasks = (Task("click"), Task("buy", mask="click"))
    with pytest.raises(ValueError, match=r"`mask` must be the same.*'buy': 'click'"):
        make(replace(SCHEMA, tasks=tasks))
    seen = tuple(replace(task, mask="was_seen") for task in tasks)
    make(replace(SCHEMA, tasks=seen), width=4, tower_units=(5,))
    if name == "aitm":
        make(replace(SCHEMA, tasks=tasks), width=4, tower_units=(5,), order_penalty=0)


def test_penalty_of_the_order_leaves_padding_out() -> None:
    model = randomised(models.aitm(SCHEMA, width=4, tower_units=(5,), dropout=0.0))
    for weight, logit in zip((1.0, 3.0, 2.0), model.tower.head._logits.values(), strict=True):
        logit.kernel.assign(weight * logit.kernel)
    mask = np.array([[True, False], [True, True], [True, False]])
    logits = arrays(model(INPUTS | {CANDIDATE_MASK: mask}, training=True))
    p = [sigmoid(logits[task]) for task in ("click", "cart", "buy")]
    excess = np.maximum(p[1] - p[0], 0) + np.maximum(p[2] - p[1], 0)
    assert np.abs(excess[mask].mean() - excess.mean()) > 1e-4
    np.testing.assert_allclose(model.losses, [0.6 * excess[mask].mean()], rtol=1e-5)


def gated(layer: GatedFields, blocks: list[np.ndarray], seen: list[np.ndarray]) -> np.ndarray:
    """The embeddings by their gates, which see others, and those that are appended."""
    vector, other = (np.concatenate([x.reshape(B, T, -1) for x in b], -1) for b in (blocks, seen))
    condition = np.concatenate([blocks[0][..., 1, :], blocks[1][..., 0, :], other], axis=-1)
    w_1, b_1, w_2, b_2 = (w.astype("float64") for w in weights_of(layer))
    hidden = np.maximum(condition @ w_1 + b_1, 0)
    appended = blocks[1][..., 1, :]
    return np.concatenate([vector * 2 * sigmoid(hidden @ w_2 + b_2), appended], axis=-1)


def test_embeddings_are_gated_as_in_the_paper() -> None:
    """Also backwards, where the gate has a gradient to the domain only."""
    layer = GatedFields(domain=[(3, 1), (4, 0)], appended=[(4, 1)], gate_units=5)
    fields = RNG.normal(size=(B, T, 3 * 3 + 2 * 4)).astype("float32")

    def blocks(x: Any) -> list[Any]:
        return [
            keras.ops.reshape(x[..., :9], (B, T, 3, 3)),
            keras.ops.reshape(x[..., 9:], (B, T, 2, 4)),
        ]

    def of_numpy(x: np.ndarray) -> list[np.ndarray]:
        return [x[..., :9].reshape(B, T, 3, 3), x[..., 9:].reshape(B, T, 2, 4)]

    present = [np.ones((B, T, count), bool) for count in (3, 2)]
    layer(blocks(fields), present)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=w.shape) for w in weights_of(layer)])
    held = of_numpy(fields.astype("float64"))
    assert_close(layer(blocks(fields), present), gated(layer, held, held))
    expected = numeric(lambda x: gated(layer, of_numpy(x), held), fields.astype("float64"))
    found = gradient(lambda x: layer(blocks(x), present, training=True), fields)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_named_features_are_found_among_fields_of_several_widths() -> None:
    model = randomised(
        models.pepnet(SCHEMA, person=("brand", "page", "age"), width=4, tower_units=(5,))
    )
    embedded = model.embedding(INPUTS)
    vector, _ = model.tower.vector(embedded)
    named = numpy(vector)[..., -11:]
    (wide, _), (narrow, _) = (
        (t, n) for n, t in sorted(model.embedding._table_weights.items(), reverse=True)
    )
    wide, narrow = numpy(wide), numpy(narrow)
    for b, t in np.ndindex(B, T):
        brand = INPUTS["brand"][b, t]
        np.testing.assert_allclose(named[b, t, :3], narrow[brand] if brand else 0, atol=1e-6)
        page = INPUTS["page"][b]
        np.testing.assert_allclose(named[b, t, 3:7], wide[page] if page else 0, atol=1e-6)
        age = np.nan_to_num(INPUTS["age"][b])
        (of_age,) = [w for w in model.embedding.weights if "context_vectors" in w.name]
        np.testing.assert_allclose(named[b, t, 7:], age * numpy(of_age)[0], atol=1e-6)


def test_gates_need_features_that_are_fields() -> None:
    with pytest.raises(ValueError, match="name those of the `domain`, of the `person` or both"):
        models.pepnet(SCHEMA)
    with pytest.raises(ValueError, match=r"`person` must be names.*Did you mean 'item'"):
        models.pepnet(SCHEMA, person=["itm"])
    with pytest.raises(ValueError, match=r"`domain` must be names of features, no sequences"):
        models.pepnet(SCHEMA, domain=["seen"])
    with pytest.raises(ValueError, match=r"`domain`: expected a list of different names"):
        models.pepnet(SCHEMA, domain="page")
    assert models.pepnet(SCHEMA, domain=["page"], tower_units=())(INPUTS)["buy"].shape == (B, T)


def test_a_task_teaches_its_own_part_of_each_row() -> None:
    """In tables, numbers and histories of several widths: its channels and the shared ones."""
    tf = tensorflow()
    model = models.stem(
        SCHEMA, width=4, experts={"shared": 2, "units": (5,), "gate_units": ()}, tower_units=()
    )
    randomise(model.embedding)
    assert {w.shape[-1] for w in model.embedding.weights} == {4 * 4, 4 * 3}
    for place, task in enumerate(("click", "cart", "buy")):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(INPUTS, training=True)[task]))
        for found in tape.gradient(loss, model.embedding.trainable_variables):
            by_part = np.abs(tf.convert_to_tensor(found)).reshape(-1, 4).max(axis=0)
            learns = np.isin(np.arange(4), [0, place + 1])
            assert (by_part[learns] > 0).all()
            np.testing.assert_array_equal(by_part[~learns], 0)


def test_rows_without_numbers_of_tasks_are_refused() -> None:
    features = (Categorical("item", size=9, width=8, table_width=2),)
    with pytest.raises(ValueError, match="Remove the `table_width` of the feature 'item'"):
        models.stem(replace(SCHEMA, features=features))
