"""Vectors of numbers, against loops over rows and functions in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models import logistic_regression
from recsys_attn.number_encodings.fields import ENCODINGS
from recsys_attn.number_options import EncodingName
from recsys_attn.schema import Numeric, Schema, Task
from tests.support.arrays import numpy

B, T, E, BINS = 5, 3, 4, 7
# As many as there may be, merged ones, one, and none.
BOUNDARIES = {
    "full": (-1.5, -1.0, -0.25, 0.0, 0.5, 1.25, 2.0),
    "merged": (0.0, 0.125, 3.0),
    "constant": (0.5,),
    "empty": (),
}
VALUES = np.array([-3.0, -1.5, -0.3, 0.0, 0.06, 0.125, 0.5, 0.51, 1.99, 2.0, 3.0, 97.0, np.nan])
Vector = np.ndarray


def linear(x: float, boundaries: Sequence[float], vectors: Vector) -> Vector:
    return x * vectors


def buckets(x: float, boundaries: Sequence[float], vectors: Vector) -> Vector:
    at = max([k for k, begin in enumerate(boundaries) if x >= begin], default=0)
    return vectors[0] + x * vectors[1] + vectors[2 + at]


def piecewise_linear(x: float, boundaries: Sequence[float], vectors: Vector) -> Vector:
    result = vectors[0]
    for k in range(len(boundaries) - 1):
        ramp = (x - boundaries[k]) / (boundaries[k + 1] - boundaries[k])
        result = result + min(max(ramp, 0.0), 1.0) * vectors[1 + k]
    return result


def periodic(x: float, _: Sequence[float], vectors: Vector, frequencies: Vector) -> Vector:
    angles = 2 * np.pi * frequencies * x
    waves = np.cos(angles) @ vectors[2 : 2 + BINS] + np.sin(angles) @ vectors[2 + BINS :]
    return vectors[0] + x * vectors[1] + waves


def autodis(
    x: float, _: Sequence[float], vectors: Vector, scales: Vector, matrices: Vector
) -> Vector:
    hidden = x * scales
    logits = np.where(hidden > 0, hidden, 0.01 * hidden) @ matrices
    weights = np.exp(logits - logits.max())
    return weights @ vectors / weights.sum()


FORMULAS: dict[str, Callable[..., Vector]] = {
    "linear": linear,
    "buckets": buckets,
    "piecewise_linear": piecewise_linear,
    "periodic": periodic,
    "autodis": autodis,
}


def embedding_of(*features: Numeric, **options: Any) -> FeatureEmbedding:
    options = {"width": E, "embeddings_initializer": "random_normal", **options}
    layer = FeatureEmbedding(Schema(features, (Task("click"),)), **options)
    layer.build()
    return layer


def vectors_of(layer: FeatureEmbedding, inputs: dict[str, Any], side: str) -> dict[str, Any]:
    """The vectors of each field of a side, by its name."""
    block = numpy(layer(inputs)[side][0])
    names = layer._tables[0].fields(side)  # type: ignore[arg-type]
    return {name: block[..., place, :] for place, name in enumerate(names)}


def numeric(encoding: Any, name: str, **options: Any) -> Numeric:
    options = {"bins": BINS, "boundaries": BOUNDARIES[name], **options}
    return Numeric(name, encoding=encoding, **options)


def weights_of(layer: FeatureEmbedding, place: int) -> list[Vector]:
    """The weights of a feature."""
    return [numpy(weight)[place].astype("float64") for weight in layer.weights]


def test_each_name_has_its_class_and_formula() -> None:
    assert set(ENCODINGS) == set(get_args(EncodingName)) == set(FORMULAS)


@pytest.mark.parametrize("encoding", FORMULAS)
@pytest.mark.parametrize("side", ["context", "candidate"])
def test_vectors_are_those_of_the_formula(encoding: str, side: Any) -> None:
    """Merged boundaries, no boundaries, and values outside of them; NaN gives zeros."""
    layer = embedding_of(*(numeric(encoding, name, side=side) for name in BOUNDARIES))
    rows = {"context": (len(VALUES),), "candidate": (1, len(VALUES))}[side]
    inputs = {name: VALUES.reshape(rows).astype("float32") for name in BOUNDARIES}
    for place, (name, vectors) in enumerate(vectors_of(layer, inputs, side).items()):
        weights = weights_of(layer, place)
        for x, vector in zip(VALUES, vectors.reshape(-1, E), strict=True):
            formula = FORMULAS[encoding]
            expected = formula(x, BOUNDARIES[name], *weights) if x == x else np.zeros(E)
            np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoding", sorted(set(FORMULAS) - {"linear"}))
def test_the_mean_is_not_as_a_missing_value(encoding: str) -> None:
    for boundaries in BOUNDARIES:
        layer = embedding_of(numeric(encoding, boundaries))
        values = np.array([[0.0, np.nan]], "float32")
        (vectors,) = vectors_of(layer, {boundaries: values}, "candidate").values()
        assert np.all(vectors[0, 0])
        np.testing.assert_array_equal(vectors[0, 1], 0)


def test_pieces_join() -> None:
    """The polygon has no jump, rises with rising weights, and is constant outside."""
    layer = embedding_of(numeric("piecewise_linear", "full"))
    weight = np.abs(numpy(layer.weights[0])) + 0.1
    layer.weights[0].assign(weight)
    steps = np.linspace(-2.5, 3.0, 1009, dtype="float32")[None]
    (vectors,) = vectors_of(layer, {"full": steps}, "candidate").values()
    differences = np.diff(vectors[0], axis=0)
    assert differences.min() >= -1e-6
    steepest = (weight[0, 1:7] / np.diff(BOUNDARIES["full"])[:, None]).max()
    assert differences.max() <= 1.01 * steepest * np.diff(steps[0]).max()
    outside = vectors[0][(steps[0] < -1.5) | (steps[0] > 2.0)]
    assert len(np.unique(outside.round(5), axis=0)) == 2


def test_one_piece_is_linear() -> None:
    layer = embedding_of(numeric("piecewise_linear", "full", bins=1, boundaries=(-1.0, 3.0)))
    ((bias, slope),) = weights_of(layer, 0)
    values = np.linspace(-1, 3, 11, dtype="float32")[None]
    (vectors,) = vectors_of(layer, {"full": values}, "candidate").values()
    expected = bias + (values[0, :, None] + 1) / 4 * slope
    np.testing.assert_allclose(vectors[0], expected, rtol=1e-5, atol=1e-6)


def test_boundaries_that_nearly_meet_give_finite_vectors() -> None:
    tiny = (0.0, 1e-45, 1.0)
    layer = embedding_of(numeric("piecewise_linear", "full", boundaries=tiny))
    values = np.array([[-1e6, 0.0, 1e-45, 1e-30, 1e6]], "float32")
    (vectors,) = vectors_of(layer, {"full": values}, "candidate").values()
    assert np.isfinite(vectors).all()


def test_unfitted_boundaries_are_those_of_standard_values() -> None:
    feature = Numeric("age", encoding="buckets", bins=4)
    boundaries = (-4.0, -0.6744898, 0.0, 0.6744898)
    layer, given = embedding_of(feature), embedding_of(replace(feature, boundaries=boundaries))
    given.set_weights(layer.get_weights())
    inputs = {"age": np.random.default_rng(0).normal(size=(B, T)).astype("float32")}
    np.testing.assert_array_equal(
        vectors_of(layer, inputs, "candidate")["age"], vectors_of(given, inputs, "candidate")["age"]
    )


MIXED = (
    numeric("buckets", "full"),
    numeric("linear", "empty"),
    numeric("piecewise_linear", "merged"),
    numeric("buckets", "constant", bins=3),
    Numeric("waves", encoding="periodic", bins=3),
    Numeric("mean", encoding="autodis", bins=3),
    Numeric("other", encoding="buckets", bins=BINS, boundaries=(0.0, 1.0)),
)


def test_features_keep_their_vectors_beside_other_encodings() -> None:
    """And in an embedding that takes the weights of some of them."""
    layer = embedding_of(*MIXED)
    rng = np.random.default_rng(1)
    inputs = {f.name: rng.normal(size=(B, T)).astype("float32") for f in MIXED}
    together = vectors_of(layer, inputs, "candidate")
    for feature in MIXED:
        alone = embedding_of(feature)
        alone.take_rows(layer)
        actual = vectors_of(alone, inputs, "candidate")[feature.name]
        np.testing.assert_allclose(actual, together[feature.name], rtol=1e-5, atol=1e-7)
    two = embedding_of(MIXED[-1], MIXED[2])
    two.take_rows(layer)
    for name, actual in vectors_of(two, inputs, "candidate").items():
        np.testing.assert_allclose(actual, together[name], rtol=1e-5, atol=1e-7)


def test_saved_model_scores_the_same(tmp_path: Path) -> None:
    model = logistic_regression(Schema(MIXED, (Task("click"),)))
    rng = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    inputs = {f.name: rng.normal(size=(B, T)).astype("float32") for f in MIXED}
    expected = numpy(model(inputs)["click"])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.schema == model.schema
    np.testing.assert_array_equal(numpy(loaded(inputs)["click"]), expected)


@pytest.mark.parametrize("encoding", FORMULAS)
def test_new_vectors_are_as_large_as_rows_of_tables(encoding: str) -> None:
    features = [Numeric(f"n{i}", encoding=encoding, bins=13) for i in range(7)]  # type: ignore[arg-type]
    layer = embedding_of(*features, width=31, embeddings_initializer=None)
    rng = np.random.default_rng(2)
    inputs = {f.name: rng.normal(size=(1, 211)).astype("float32") for f in features}
    vectors = list(vectors_of(layer, inputs, "candidate").values())
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(vectors))), 0.01, rtol=0.2)


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"Feature 'age': unknown `encoding`.*'buckets'"):
        Numeric("age", encoding="bucket")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Feature 'age': `bins` must be a positive integer"):
        Numeric("age", bins=0)
    with pytest.raises(ValueError, match="Feature 'age': `boundaries` must increase"):
        Numeric("age", boundaries=(1.0, 1.0))
    with pytest.raises(ValueError, match=r"'age': .*`boundaries` must have at most 2 numbers"):
        embedding_of(Numeric("age", encoding="buckets", bins=2, boundaries=(0.0, 1.0, 2.0)))
