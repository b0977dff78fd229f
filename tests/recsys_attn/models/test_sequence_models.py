"""Sequence models: what a state depends on, scores of items, and saving."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.id_transforms import Age
from recsys_attn.models import SEQUENCE_MODELS, SequenceModel
from recsys_attn.models.sequence_model import shifted
from recsys_attn.schema import Categorical, Schema, Sequence, Task

ITEMS, LENGTH = 19, 7
ITEM = Sequence("item", size=ITEMS, max_length=LENGTH)
ACTION = Sequence("action", size=5, max_length=LENGTH, width=3)
AGES = Sequence("age", dtype="float32", transform=Age(), max_length=LENGTH)
PLAIN, WITH_TIMES = Schema((ITEM,), ()), Schema((ITEM, ACTION, AGES), ())
WITH_ACTIONS = Schema((ITEM, replace(ACTION, width=None)), ())
INTERVALS = {"class_name": "time_intervals", "config": {"values": True}}
SEGMENTS = {"class_name": "segments", "config": {"segment": 3, "memory": 3}}
LINEAR = {"class_name": "linear_transformer", "config": {"causal": True}}
CASES: dict[str, tuple[str, Schema, dict[str, Any]]] = {
    "sasrec": ("sasrec", PLAIN, {}),
    "gsasrec": ("sasrec", PLAIN, {"tied": False}),
    "tisasrec": ("sasrec", WITH_TIMES, {"positions": INTERVALS, "width": 5}),
    "esasrec": ("esasrec", PLAIN, {"positions": "rotary", "num_heads": 2}),
    "bert4rec": ("bert4rec", PLAIN, {}),
    "bert4rec with times": ("bert4rec", WITH_TIMES, {"width": 5}),
    "xlnet": ("xlnet", PLAIN, {}),
    "with actions": ("sasrec", WITH_ACTIONS, {"action": "action"}),
    "hstu with actions": ("hstu", WITH_ACTIONS, {"action": "action", "num_heads": 2}),
    "hstu": ("hstu", PLAIN, {"num_heads": 2}),
    "hstu with times": ("hstu", WITH_TIMES, {"width": 5}),
    "gru4rec": ("sequence_encoder", PLAIN, {}),
    "linear": ("sequence_encoder", PLAIN, {"encoder": LINEAR}),
    "segments": ("sequence_encoder", PLAIN, {"encoder": SEGMENTS}),
    "both directions": ("sequence_encoder", PLAIN, {"encoder": "transformer"}),
}


def _model(case: str) -> SequenceModel:
    keras.utils.set_random_seed(5)
    name, schema, options = CASES[case]
    return models.get_sequence_model(name)(schema, **{"width": 8, **options})


def _inputs(model: SequenceModel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    present = np.arange(LENGTH) < np.array([[7], [4], [1], [0], [3]])
    drawn = {
        "item": rng.integers(2, ITEMS, present.shape),
        "action": rng.integers(1, 5, present.shape),
        "age": 2 + np.sort(rng.integers(0, 3, present.shape), axis=1)[:, ::-1],  # with equal times
    }
    names = [feature.name for feature in model.schema.features]
    return {name: np.where(present, drawn[name], 0) for name in names}


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> SequenceModel:
    return _model(request.param)


def _scores(model: SequenceModel, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return keras.ops.convert_to_numpy(model.scores(model.next_states(inputs)))


@pytest.mark.sampled(6)
def test_later_events_change_no_state_of_a_causal_model(model: SequenceModel) -> None:
    inputs = _inputs(model)
    changed = {name: x.copy() for name, x in inputs.items()}
    changed["item"][0, 4:] = (changed["item"][0, 4:] + 3) % (ITEMS - 2) + 2
    states, after = (keras.ops.convert_to_numpy(model(x)) for x in (inputs, changed))
    assert model.is_causal == (model.appends is None)
    if model.is_causal:
        same = 4 * model.per_event
        np.testing.assert_allclose(states[0, :same], after[0, :same], atol=1e-6)
    assert np.abs(states[0, 4:] - after[0, 4:]).max() > 1e-3


@pytest.mark.sampled(6)
def test_rows_and_padding_do_not_matter(model: SequenceModel) -> None:
    inputs = _inputs(model)
    together = _scores(model, inputs)
    alone = _scores(model, {name: x[1:2, :4] for name, x in inputs.items()})
    np.testing.assert_allclose(alone[0], together[1], atol=2e-5)


@pytest.mark.sampled(6)
def test_dropout_is_on_in_training_alone(model: SequenceModel) -> None:
    inputs = _inputs(model)
    events = model.events(inputs)
    drawn = [keras.ops.convert_to_numpy(model.encode(events, True)) for _ in range(5)]
    off = keras.ops.convert_to_numpy(model.encode(events, False))
    changed = np.ptp(drawn, axis=0).max(axis=-1)
    assert changed[events.present].min() > 1e-4
    np.testing.assert_array_equal(off, keras.ops.convert_to_numpy(model(inputs)))
    kept = model.encoder.enter(*events[:2], events.times, training=True)
    kept = keras.ops.convert_to_numpy(kept)
    whole = keras.ops.convert_to_numpy(model.encoder.enter(*events[:2], events.times))
    assert np.abs(kept - whole)[events.present].max() > 1e-3
    assert np.abs(off - drawn[0]).max() > 1e-3


@pytest.mark.sampled(6)
def test_a_saved_model_scores_the_same(model: SequenceModel, tmp_path: Path) -> None:
    inputs = _inputs(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(_scores(loaded, inputs), _scores(model, inputs), atol=1e-6)


@pytest.mark.sampled(3)
def test_scores_are_products_with_the_vectors_of_items(model: SequenceModel) -> None:
    states = model.next_states(_inputs(model))
    queries = keras.ops.convert_to_numpy(model.queries(states))
    vectors, offsets = model.rows(np.arange(ITEMS))
    expected = queries @ keras.ops.convert_to_numpy(vectors).T
    if offsets is not None:
        expected = expected + keras.ops.convert_to_numpy(offsets)
    np.testing.assert_allclose(model.scores(states), expected, atol=1e-5)
    np.testing.assert_allclose(model.table()[0], vectors, atol=1e-7)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SEQUENCE_MODELS)
def test_a_second_table_is_of_the_scores_alone(name: str) -> None:
    made = [models.get_sequence_model(name)(PLAIN, width=8, tied=tied) for tied in (True, False)]
    shared, second = made
    assert second.count_params() - shared.count_params() == ITEMS * 8
    inputs = _inputs(second)
    states, before = keras.ops.convert_to_numpy(second(inputs)), _scores(second, inputs)
    (table,) = (v for v in second.output_layer.trainable_variables if v.shape == (ITEMS, 8))
    table.assign(keras.ops.flip(table, axis=0))
    np.testing.assert_array_equal(second(inputs), states)
    assert np.abs(_scores(second, inputs) - before).max() > 0.01


def test_a_model_without_causal_states_predicts_at_a_vector_behind_the_events() -> None:
    model = _model("bert4rec")
    inputs = _inputs(model)
    events = model.events({"item": np.pad(inputs["item"], ((0, 0), (0, 1)))})
    count = (inputs["item"] != 0).sum(axis=1)
    behind = np.arange(LENGTH + 1) == count[:, None]
    hidden = events._replace(
        vectors=model.masked(events.vectors, behind), present=events.present | behind
    )
    expected = keras.ops.convert_to_numpy(model.encode(hidden))[np.arange(5), count]
    np.testing.assert_allclose(model.next_states(inputs), expected, atol=1e-5)


def test_cosines_are_divided_by_the_temperature() -> None:
    model = _model("hstu")
    largest = np.abs(_scores(model, _inputs(model))[:, 2:]).max()
    assert 0 < largest <= 1 / 0.05 + 1e-4


def test_equal_times_do_not_show_an_event_the_next_one() -> None:
    model = _model("tisasrec")
    inputs = _inputs(model)
    inputs["age"] = np.where(inputs["item"] != 0, 9, 0)
    changed = {**inputs, "item": inputs["item"].copy()}
    changed["item"][0, 5] = 2 + (changed["item"][0, 5] - 1) % (ITEMS - 2)
    np.testing.assert_allclose(model(inputs)[0, :5], model(changed)[0, :5], atol=1e-6)


def test_shifted_events_are_those_with_a_next_one() -> None:
    events, following = shifted({"item": np.array([[5, 6, 7, 0], [8, 0, 0, 0]])}, "item")
    np.testing.assert_array_equal(events["item"], [[5, 6, 0], [0, 0, 0]])
    np.testing.assert_array_equal(following, [[6, 7, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema((Sequence("item", max_length=5),), ()), "has no `size`"),
        (Schema((ITEM,), (Task("click"),)), "without other features and tasks"),
        (Schema((ITEM, Categorical("user", "context", size=5)), ()), "without other features"),
        (Schema((Categorical("user", "context", size=5),), ()), "one history"),
    ],
)
def test_another_schema_is_an_error(schema: Schema, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.sasrec(schema)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="`num_heads` must divide the width"):
        models.sasrec(PLAIN, width=7, num_heads=2)


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="Did you mean 'sasrec'"):
        models.get_sequence_model("sasrek")
