"""Small histories, models without dropout, and what an objective shows a model."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.id_transforms import Age
from recsys_attn.models import SequenceModel, get_sequence_model
from recsys_attn.models.sequence_model import Events
from recsys_attn.objectives import OBJECTIVES, Loss, Objective
from recsys_attn.schema import Schema, Sequence
from tests.support.arrays import assert_close, numpy

Array = np.ndarray
Arrays = dict[str, Array]

ITEMS, ACTIONS, CATEGORIES, SESSIONS = 19, 5, 7, 13
LENGTHS = (7, 5, 3, 2, 1, 0, 7, 4, 6, 3, 7)
ROWS, LENGTH, WIDTH = len(LENGTHS), 7, 6
SIZES = {"item": ITEMS, "action": ACTIONS, "category": CATEGORIES, "session": SESSIONS}
ITEM = Sequence("item", size=ITEMS, max_length=LENGTH)
ACTION = Sequence("action", size=ACTIONS, max_length=LENGTH)
AGE = Sequence("age", dtype="float32", transform=Age(), max_length=LENGTH)
SCHEMAS = {
    "item": Schema((ITEM,), ()),
    "times": Schema((ITEM, AGE), ()),
    "actions": Schema((ITEM, ACTION), ()),
}


@functools.cache
def model_of(name: str, schema: str = "item", **options: Any) -> SequenceModel:
    """A model, one of the same arguments for all tests of a process."""
    keras.utils.set_random_seed(5)
    build = get_sequence_model(name)
    model = build(SCHEMAS[schema], **{"width": WIDTH, "dropout": 0.0, **options})
    rng = np.random.default_rng(11)
    for variable in model.trainable_variables:  # those of new models are too small to tell apart
        variable.assign(numpy(variable) + rng.normal(0, 0.3, variable.shape))
    return model


def objective(name: str, model: SequenceModel, **options: Any) -> Objective:
    """An objective, ready for the model."""
    made = OBJECTIVES[name](**options)
    made.require_fit(model)
    made.prepare(model, SIZES)
    return made


def histories(lengths: tuple[int, ...] = LENGTHS, seed: int = 3) -> Arrays:
    """Ids of every sequence, with unknown ids among them, and sessions in their order."""
    rng = np.random.default_rng(seed)
    shape = len(lengths), max(lengths)
    steps = rng.integers(0, 2, shape)
    drawn = {
        "item": rng.integers(1, ITEMS, shape),
        "action": rng.integers(1, ACTIONS, shape),
        "category": rng.integers(1, CATEGORIES, shape),
        "session": 2 + np.cumsum(steps, axis=1),
        "age": 2 + np.cumsum(rng.integers(0, 9, shape), axis=1)[:, ::-1],
    }
    present = np.arange(shape[1]) < np.array(lengths)[:, None]
    return {name: np.where(present, x, 0).astype("int32") for name, x in drawn.items()}


def present_in(inputs: Arrays) -> Array:
    return np.any([x != 0 for x in inputs.values()], axis=0)


class Shown(NamedTuple):
    """What a model was given, call by call."""

    inputs: list[Arrays]
    events: list[Events]
    states: list[Array]
    ranks: list[Array]


def shown_to(model: SequenceModel, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Records the calls of a model in this test."""
    shown = Shown([], [], [], [])
    events, encode, query_states = model.events, model.encode, model.query_states

    def recorded_events(inputs: Any) -> Events:
        shown.inputs.append({name: numpy(x) for name, x in inputs.items()})
        return events(inputs)

    def recorded_states(given: Events, states: Any) -> Any:
        shown.events.append(Events(*(None if x is None else numpy(x) for x in given)))
        shown.states.append(numpy(states).astype("float64"))
        return states

    def recorded_encode(given: Events, training: bool | None = None) -> Any:
        return recorded_states(given, encode(given, training))

    def recorded_queries(given: Events, ranks: Any, training: bool | None = None) -> Any:
        shown.ranks.append(numpy(ranks))
        return recorded_states(given, query_states(given, ranks, training))

    monkeypatch.setattr(model, "events", recorded_events)
    monkeypatch.setattr(model, "encode", recorded_encode)
    monkeypatch.setattr(model, "query_states", recorded_queries)
    return shown


def hidden_in(model: SequenceModel, events: Events) -> Array:
    """Which events stand behind the learned vector."""
    found: Array = np.all(events.vectors == numpy(model.mask_vector), axis=-1)
    return found


def catalogue_losses(model: SequenceModel, states: Array, targets: Array) -> Array:
    """The cross-entropy over all items at each place `(B, S)`, in float64."""
    queries = numpy(model.queries(ops.convert_to_tensor(states, "float32"))).astype("float64")
    vectors, offsets = model.table()
    scores = queries @ numpy(vectors).astype("float64").T
    scores = (scores if offsets is None else scores + numpy(offsets))[..., 2:]
    return labelled(scores, targets - 2)


def labelled(logits: Array, labels: Array) -> Array:
    """The cross-entropy of labels `(...)` with logits `(..., L)`; labels below 0 give anything."""
    right = np.take_along_axis(logits, np.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    return np.asarray(np.logaddexp.reduce(logits, axis=-1) - right)


def binary(logits: Array, labels: Array) -> Array:
    """The cross-entropy of sigmoids."""
    return np.where(labels, np.logaddexp(0, -logits), np.logaddexp(0, logits))


def dense(layer: Any, x: Array) -> Array:
    """A dense layer in float64."""
    found = x @ numpy(layer.kernel).astype("float64")
    return np.asarray(found if layer.bias is None else found + numpy(layer.bias))


def assert_loss(found: Loss, each: Array, counted: Array) -> None:
    """Compares with the losses of single predictions, of which some count."""
    assert float(found.count) == counted.sum() > 0
    assert_close(found.total, each[counted].sum(), rtol=1e-5)


def assert_rows_stand_alone(of: Objective, model: SequenceModel, inputs: Arrays) -> None:
    """Neither the other rows nor padding nor the order matter, where nothing is drawn."""

    def loss(given: Arrays) -> Array:
        return np.array([float(x) for x in of(model, given)])

    assert of.by_row
    whole = loss(inputs)
    assert whole[1] > 0
    np.testing.assert_allclose(loss({k: x[::-1] for k, x in inputs.items()}), whole, rtol=1e-5)
    is_short = ~present_in(inputs)[:, 4]
    short = {name: x[is_short, :4] for name, x in inputs.items()}
    others = {name: np.where(is_short[:, None], 0, x) for name, x in inputs.items()}
    np.testing.assert_allclose(loss(short) + loss(others), whole, rtol=1e-5)
