"""The logits of models with linear terms equal the papers' sums over fields."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Schema
from tests.support import field_models
from tests.support.arrays import assert_close
from tests.support.field_models import FEATURES, INPUTS, RNG, TASKS, B, T, random_model

SMALL: dict[str, dict[str, Any]] = {
    "fm": {},
    "deepfm": {"mlp_units": (5,), "dropout": 0.0},
    "wide_and_deep": {"mlp_units": (5,)},
    "logistic_regression": {},
}


def built(name: str, tasks: str, **options: Any) -> RankingModel:
    given = {} if name == "logistic_regression" else {"width": 3, **SMALL[name]}
    return random_model(name, tasks, **given, **options)


def fields_of(model: RankingModel) -> tuple[np.ndarray, np.ndarray]:
    """The linear weights (B, T, F, tasks) and the vectors (B, T, F, E)."""
    return field_models.fields_of(model, len(model.schema.tasks))


def weight(model: RankingModel, path: str) -> np.ndarray:
    (found,) = [w for w in model.tower.weights if w.path.endswith(path)]
    return np.asarray(found, "float64")


def pairs(vectors: np.ndarray) -> np.ndarray:
    """The inner products of all pairs, (B, T, P)."""
    places = itertools.combinations(range(vectors.shape[-2]), 2)
    return np.stack([(vectors[..., i, :] * vectors[..., j, :]).sum(-1) for i, j in places], -1)


def logits(model: RankingModel) -> np.ndarray:
    return np.stack([keras.ops.convert_to_numpy(x) for x in model(INPUTS).values()], axis=-1)


def test_missing_fields_have_no_linear_term() -> None:
    linear, vectors = fields_of(built("fm", "two"))
    assert linear.shape == (B, T, 5, 2)
    assert vectors.shape == (B, T, 5, 3)
    missing = (linear == 0).all(axis=-1) & (vectors == 0).all(axis=-1)
    assert missing[0].any(axis=-1).all()  # the user
    assert missing[1].any(axis=-1).all()  # the age


@pytest.mark.parametrize("tasks", TASKS)
def test_logistic_regression_is_a_sum_of_weights(tasks: str) -> None:
    model = built("logistic_regression", tasks)
    linear, vectors = fields_of(model)
    assert vectors.shape[-1] == 0
    assert_close(logits(model), linear.sum(axis=-2) + weight(model, "offsets"))


@pytest.mark.parametrize("tasks", TASKS)
def test_a_factorization_machine_is_the_papers(tasks: str) -> None:
    model = built("fm", tasks)
    linear, vectors = fields_of(model)
    products = pairs(vectors).sum(axis=-1)[..., None]
    scale = weight(model, "term_weights")[0] if tasks == "two" else 1.0
    expected = linear.sum(axis=-2) + scale * products + weight(model, "offsets")
    assert_close(logits(model), expected)
    counted = sum(np.size(w) for w in model.tower.trainable_weights)
    assert counted == {"one": 1, "two": 4}[tasks]  # one task needs no weight of the pairs


def test_weights_of_pairs_make_the_field_weighted_machine() -> None:
    model = built("fm", "two", pair_weights=True)
    linear, vectors = fields_of(model)
    for task, found in enumerate(model(INPUTS).values()):
        dense = list(model.tower.head._logits.values())[task]
        own, offset = (np.asarray(w, "float64") for w in dense.weights)
        expected = linear[..., task].sum(axis=-1) + (pairs(vectors) @ own + offset)[..., 0]
        assert_close(found, expected)


def test_afm_has_dropout_of_weights_and_of_their_sum() -> None:
    schema = Schema(FEATURES, TASKS["one"])
    model = models.afm(schema, width=3, attention_dropout=0.3, dropout=0.2)
    (stream,) = model.tower.interaction.streams
    (pairs,) = stream.fields
    assert pairs.pooling.attention.mechanism.dropout.rate == 0.3
    assert [layer.rate for layer in stream.layers] == [0.2]


@pytest.mark.parametrize("name", ["wide_and_deep", "deepfm"])
def test_deep_models_add_the_network(name: str) -> None:
    model = built(name, "one")
    linear, vectors = fields_of(model)
    (network,) = model.tower.interaction.streams
    kernel, bias = (np.asarray(w, "float64") for w in network.weights)
    hidden = np.maximum(vectors.reshape(B, T, -1) @ kernel + bias, 0)
    out, offset = (np.asarray(w, "float64") for w in model.tower.head.weights)
    expected = linear[..., 0].sum(axis=-1) + (hidden @ out + offset)[..., 0]
    if name == "deepfm":
        expected = expected + pairs(vectors).sum(axis=-1)
    assert_close(logits(model)[..., 0], expected)


def test_a_feature_keeps_its_own_width_beside_linear_terms() -> None:
    wide = Schema((*FEATURES, Categorical("brand", size=4, width=6)), TASKS["one"])
    given = INPUTS | {"brand": RNG.integers(0, 4, (B, T)).astype("int32")}
    model = models.wide_and_deep(wide, width=3, mlp_units=(5,))
    assert sorted(table.shape[-1] for table in model.embedding.weights) == [4, 4, 7]
    assert model(given)["click"].shape == (B, T)
    assert models.logistic_regression(wide)(given)["click"].shape == (B, T)
    with pytest.raises(ValueError, match=r"FactorizationMachine needs fields of one width"):
        models.fm(wide, width=3)
