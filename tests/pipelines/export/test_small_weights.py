"""Weights in fewer bits: their numbers, and the scores of the small model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.experiment.export_options import ExportOptions
from pipelines.export.small_weights import Numbers, shrink
from pipelines.features import FittedFeatures
from pipelines.scoring.scorer import Scorer
from recsys_attn import models
from recsys_attn.embeddings import example_inputs
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema
from tests.support import shop
from tests.support.exports import write_export

STORED = [("float16", "int8"), pytest.param("int8", "float16", marks=pytest.mark.thorough)]


NARROW = {"item": 3, "brand": 3, "interests": 2}  # of a table, projected to the model's width
SCHEMA = Schema(
    tuple(
        replace(f, table_width=NARROW[f.name]) if f.name in NARROW else f
        for f in shop.SCHEMA.features
    ),
    shop.SCHEMA.tasks,
)


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    return shop.fitted(SCHEMA)


@pytest.fixture(scope="module")
def model(fitted: FittedFeatures) -> RankingModel:
    model = shop.model(fitted)
    model.calibrate({"buy": (1.3, -0.4)})
    return model


def test_8_bits_round_to_the_nearest_of_255_numbers_a_row() -> None:
    weight = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")
    weight[3] = 0
    numbers, scales = Numbers.of(weight, "int8", axis=-1)
    assert scales is not None
    assert (numbers.dtype, scales.shape) == (np.dtype("int8"), (7, 1))
    np.testing.assert_allclose(scales[:, 0], np.abs(weight).max(axis=1) / 127, rtol=1e-6)
    assert np.all(np.abs(numbers * scales - weight) <= scales / 2 * (1 + 1e-5))
    assert not numbers[3].any()
    np.testing.assert_array_equal(np.abs(numbers).max(axis=1), [127, 127, 127, 0, 127, 127, 127])


def test_16_bits_stay_finite() -> None:
    numbers, scales = Numbers.of(np.float32([[1e6, -1e6, 0.1]]), "float16", axis=-1)
    assert scales is None
    np.testing.assert_array_equal(numbers, np.float16([[65504, -65504, 0.1]]))


@pytest.mark.thorough
@pytest.mark.parametrize(("tables", "tower"), STORED)
def test_scores_are_those_of_a_model_with_rounded_weights(
    tables: str, tower: str, fitted: FittedFeatures, model: RankingModel, tmp_path: Path
) -> None:
    table = shop.table(11, seed=5, unknown=True)
    before = Scorer(model).score_table(table, fitted, "request")
    small = shrink(model, ExportOptions(tables=tables, tower=tower))
    found = Scorer(small).score_table(table, fitted, "request")
    rounded = shop.model(fitted)
    rounded.calibrate(model.calibration())
    for target, source in zip(rounded.weights, model.weights, strict=True):
        is_table = "table_" in source.path
        kind, axis = (tables, -1) if is_table else (tower, -2)
        value = np.asarray(source)
        if kind != "float32" and value.ndim > 1 and not _is_float32(source.path):
            numbers, scales = Numbers.of(value, kind, axis)
            value = numbers.astype("float32") * (1 if scales is None else scales)
        if "calibration" not in source.path:
            target.assign(value)
    expected = Scorer(rounded).score_table(table, fitted, "request")
    for task, scores in expected.items():
        np.testing.assert_allclose(found[task], scores, atol=2e-6)
        assert np.abs(scores - before[task]).max() > 1e-5  # the rounding shows
    assert small.explanations == model.explanations
    manifest = write_export(tmp_path / "1", small, fitted)
    assert manifest["parity"]["max_abs_difference"] < 1e-5
    assert _bytes(small) < _bytes(model)


CONTEXT = {"features": ["city"], "how": "film"}
MODELS = {
    "esmm": {"name": "esmm", "tower_units": (5,)},
    "context": {"name": "din", "mlp_units": (5,), "encoder": {"name": "gru", "context": CONTEXT}},
    "experts": {"name": "mmoe", "experts": {"units": (5,)}, "tower_units": (5,)},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", MODELS.values(), ids=list(MODELS))
@pytest.mark.parametrize("stored", [("int8", "float32"), ("float32", "int8")])
def test_a_small_model_has_all_parts_of_the_trained_one(options, stored, fitted) -> None:
    """The chain of ESMM, the context of an encoder, the gates of experts."""
    name, *_ = options.values()
    given = {key: value for key, value in options.items() if key != "name"}
    tasks = tuple(replace(task, mask=None) for task in fitted.schema.tasks)
    model = models.get(name)(replace(fitted.schema, tasks=tasks), width=4, **given)
    rng = np.random.default_rng(3)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    first, second = (task.name for task in model.schema.tasks)
    model.calibrate({first: (1.0, -2.0), second: (1.0, 3.0)})
    small = shrink(model, ExportOptions(tables=stored[0], tower=stored[1]))
    inputs = example_inputs(model.schema, batch=5, candidates=7)
    for feature in model.schema.features:
        if feature.name in inputs and inputs[feature.name].dtype == np.int32:
            shape = inputs[feature.name].shape
            inputs[feature.name] = rng.integers(2, 4, shape).astype("int32")
    scores, expected = small.probabilities(inputs), model.probabilities(inputs)
    for task in (first, second):
        np.testing.assert_allclose(scores[task], expected[task], atol=0.05)
    assert (small.same_rows, small.explanations) == (model.same_rows, model.explanations)
    assert small.tower.has_experts == model.tower.has_experts
    if name == "esmm":
        assert np.all(np.asarray(scores[second]) <= np.asarray(scores[first]))


def test_a_small_ensemble_has_small_members(fitted: FittedFeatures) -> None:
    member, options = shop.linear_model(fitted), ExportOptions(tables="int8", tower="int8")
    inputs = example_inputs(fitted.schema, batch=5, candidates=7)
    found = shrink(models.ensemble(fitted.schema, [member]), options).probabilities(inputs)
    for task, scores in shrink(member, options).probabilities(inputs).items():
        np.testing.assert_allclose(found[task], scores, atol=1e-6)


def test_shrunk_model_keeps_the_trained_one(fitted: FittedFeatures, model: RankingModel) -> None:
    before = model.get_weights()
    shrink(model, ExportOptions(tables="int8", tower="int8"))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)


def _is_float32(path: str) -> bool:
    """Whether no storage changes a weight: few numbers of the embedding."""
    return "_vectors_" in path or "projection_" in path


def _bytes(model: RankingModel) -> int:
    return sum(np.asarray(weight).nbytes for weight in model.weights)
