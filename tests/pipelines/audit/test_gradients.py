"""Gradients at embeddings, against models whose relevance is known."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.audit.gradients import Gradients
from pipelines.audit.leave_one_out import Logits, leave_one_out
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import FIELDS, AllUnits
from tests.pipelines.audit import planted
from tests.support import shop


@pytest.fixture(scope="module")
def units(fitted):
    (inputs,) = rows_of(shop.table(17, seed=5), fitted)
    return AllUnits.of(fitted.schema, inputs)


def test_methods_agree_exactly_on_a_linear_model(fitted, units):
    model = shop.linear_model(fitted)
    logits, gradients = Logits(model), Gradients(model)
    left_out = leave_one_out(logits, logits(units.fields.inputs), units.fields)
    integrated, remainder = gradients.integrated(units, steps=2)
    assert (np.abs(left_out) > 1e-3).any(axis=(0, 1)).all()
    for found in (gradients.times_input(units)[0][FIELDS], integrated[FIELDS]):
        np.testing.assert_allclose(found, left_out, atol=3e-5)
    np.testing.assert_allclose(remainder, 0, atol=1e-5)


@pytest.fixture(
    scope="module",
    params=["attention_ranker", pytest.param("context", marks=pytest.mark.thorough)],
)
def model(request, fitted):
    """Models with a query of a history; one whose encoder also reads a feature by name."""
    options = {}
    if request.param == "context":
        context = {"features": ["city"], "how": "film"}
        options = {"encoder": {"name": "transformer", "context": context}}
    return shop.model(fitted, **options)


def test_integrated_gradients_are_complete(model, units, request):
    with_norm = "context" in request.node.name
    gradients = Gradients(model)
    coarse, fine = (gradients.integrated(units, steps) for steps in (4, 128))
    change = gradients.change_from_zeros(units)
    embedded = model.embedding(dict(units.fields.inputs))
    zeros = keras.tree.map_structure(
        lambda x: x if x is None or x.dtype in (tf.bool, tf.int32) else tf.zeros_like(x), embedded
    )
    ends = [model.tower(each, training=False) for each in (embedded, zeros)]
    for index, task in enumerate(("click", "buy")):
        expected = (ends[0][task] - ends[1][task])[:, 0]
        np.testing.assert_allclose(change[index], expected, atol=1e-5)
    relevance, remainder = fine
    # Every component of the embedding belongs to one field.
    np.testing.assert_allclose(relevance[FIELDS].sum(axis=-1) + remainder, change, atol=1e-4)
    missed = [np.abs(each).mean() / np.abs(change).mean() for each in (remainder, coarse[1])]
    # A norm bends sharply where its input leaves zeros.
    assert missed[0] < (0.06 if with_norm else 0.01)
    assert missed[0] < 0.6 * missed[1]
    for history in ("history", "searches"):
        whole = relevance[FIELDS][..., units.fields.names.index(history)]
        by_event = relevance[f"events/{history}"].sum(axis=-1)
        np.testing.assert_allclose(by_event, whole, atol=1e-5)


@pytest.mark.thorough
def test_the_gradient_of_a_row_is_that_of_single_numbers(fitted, units):
    """A number's embedding is proportional to it, so its relevance is a plain derivative."""
    model = shop.model(fitted)
    inputs = dict(units.fields.inputs)
    logits = Logits(model)
    found = Gradients(model).times_input(units)[0][FIELDS]
    name, step = "sales", 1e-2
    ends = [logits({**inputs, name: inputs[name] + sign * step}) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    expected = np.nan_to_num(slope * inputs[name][:, 0])
    relevance = found[..., units.fields.names.index(name)]
    close = np.isclose(relevance, expected, atol=2e-3, rtol=2e-2)
    assert close.mean() > 0.95  # ReLU bends between the two ends of a few rows
    assert (np.abs(expected) > 0.01).any()


def test_like_events_have_the_relevance():
    table = planted.table()
    fitted = planted.fitted(table)
    (inputs,) = rows_of(table, fitted)
    units, model = AllUnits.of(fitted.schema, inputs), planted.model(fitted)
    events, logits, gradients = units.events["history"], Logits(model), Gradients(model)
    like = events.by_event(planted.like_events(inputs)) * 1.0
    assert 0 < like.sum() < events.there.sum()
    left_out = leave_one_out(logits, logits(inputs), events)
    times_input = gradients.times_input(units)[0]["events/history"]
    integrated, _ = gradients.integrated(units, steps=4)
    np.testing.assert_allclose(left_out, [like, 0 * like], atol=1e-5)
    # `(q . k) (w . k)` has the degree 3: the gradient counts an event twice; on the way from zeros
    # a third of the relevance is the query's.
    np.testing.assert_allclose(times_input, [2 * like, 0 * like], atol=1e-5)
    np.testing.assert_allclose(integrated["events/history"], times_input / 3, atol=1e-5)
    item = integrated[FIELDS][0][:, units.fields.names.index("item")]
    np.testing.assert_allclose(item, like.sum(axis=1) / 3, atol=1e-5)
