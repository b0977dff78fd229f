"""Chefer's rule and the relevance of heads, against changes of single weights and heads."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from pipelines.audit.attention_gradients import (
    AttentionGradients,
    PlaceGradients,
    chefer,
    field_attention,
)
from pipelines.audit.heads import HeadLogits, HeadUnits, several, side_by_side
from pipelines.audit.leave_one_out import Logits, leave_one_out
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import FIELDS, AllUnits
from recsys_attn.id_transforms import Age
from recsys_attn.models import afm, dsin
from recsys_attn.models.attention_places import (
    AttentionPlace,
    interaction_fields,
    watch_attention,
)
from recsys_attn.schema import Categorical, Schema, Sequence
from tests.pipelines.audit import planted
from tests.support import shop


@pytest.fixture(scope="module")
def units(fitted):
    (inputs,) = rows_of(shop.table(17, seed=5), fitted)
    return AllUnits.of(fitted.schema, inputs)


@pytest.fixture(scope="module")
def model(fitted):
    return shop.model(
        fitted,
        interaction={"num_layers": 2, "num_heads": 2},
        encoder={"name": "transformer", "num_layers": 2},
        target_attention={**shop.TARGET_ATTENTION, "num_heads": 2},
    )


@pytest.fixture(scope="module")
def attended(model, units):
    return AttentionGradients(model)(units)


def watched(model, units, change):
    """Logits (tasks, rows) after `change(place, call)` of each output."""

    def visit(place, call):
        return call._replace(output=change(place, call))

    inputs = {name: tf.convert_to_tensor(array) for name, array in units.fields.inputs.items()}
    with watch_attention(model, visit):
        logits = model(inputs, training=False)
    return np.stack([logits[task][:, 0] for task in ("click", "buy")]).astype(float)


@pytest.mark.thorough
def test_a_weight_counts_by_what_its_change_does(model, units, attended):
    """The mean over heads of `(w * df/dw)^+` from differences of logits."""
    step, rng, seen = 1e-2, np.random.default_rng(0), 0
    for one in attended:
        if one.place.kind == "gate":
            continue
        _, heads, queries, keys = one.weights.shape
        query, key = rng.integers(queries), rng.integers(keys)
        expected = np.zeros((2, len(one.weights)))
        for head in range(heads):
            moved = []
            for sign in (1, -1):

                def change(place, call, of=one, head=head, sign=sign, query=query, key=key):
                    if place != of.place:
                        return call.output
                    at = np.zeros((1, call.output.shape[1], call.output.shape[2], 1), "float32")
                    at[0, query, head] = sign * step
                    return call.output + at * call.value[:, key : key + 1]

                moved.append(watched(model, units, change))
            slope = (moved[0] - moved[1]) / (2 * step)
            expected += np.maximum(slope * one.weights[:, head, query, key], 0) / heads
        close = np.isclose(one.raising[:, :, query, key], expected, atol=1e-3, rtol=0.02)
        assert close.mean() > 0.97, str(one.place)  # ReLU bends between the two ends of a few rows
        seen += expected.max() > 0.01
    assert seen >= 3


def test_relevance_passes_from_layer_to_layer(fitted, model, units):
    """The rule as it is written, with matrices, on invented attention."""
    rng = np.random.default_rng(1)
    rows, fields = len(units.fields.there), len(interaction_fields(model))

    def of(kind, history, number, *shape):
        raising = rng.random((2, rows, *shape))
        return PlaceGradients(AttentionPlace(kind, history, number), None, raising, None, None)

    layers = [of("interaction", "", n, fields, fields) for n in (1, 2, 3)]
    blocks = [of("encoder", "history", n, 5, 5) for n in (1, 2)]
    target = of("target_attention", "history", 1, 1, 5)
    found = chefer(model, units, [*blocks, target, *layers])
    assert set(found) == {FIELDS, "events/history"}
    names = units.fields.names
    for row in (0, 3, 7):
        relevance = np.eye(fields)
        for one in layers:
            relevance = relevance + one.raising[1, row] @ relevance
        received = (relevance - np.eye(fields)).sum(axis=0)
        np.testing.assert_allclose(found[FIELDS][1, row].sum(), received.sum())
        np.testing.assert_allclose(found[FIELDS][1, row, names.index("searches")], received[-1])
        np.testing.assert_allclose(
            found[FIELDS][1, row, names.index("history")], received[-3:-1].sum()
        )
        relevance = np.eye(5)
        for one in blocks:
            relevance = relevance + one.raising[0, row] @ relevance
        events = (target.raising[0, row] @ relevance)[0]
        count = units.events["history"].there[row].sum()
        np.testing.assert_allclose(found["events/history"][0, row, :count], events[:count][::-1])


@pytest.mark.thorough
def test_events_are_named_after_they_moved_to_the_front(fitted, model, units):
    """Events of a history with gaps have the relevance of those of the same without."""
    inputs = dict(units.fields.inputs)
    gaps = AllUnits.of(fitted.schema, {**inputs, **apart(inputs, ["past_items", "past_brands"])})
    found, expected = (
        chefer(model, each, AttentionGradients(model)(each))["events/history"]
        for each in (gaps, AllUnits.of(fitted.schema, inputs))
    )
    several_events = units.events["history"].there.sum(axis=1) == 3
    there = gaps.events["history"].there
    assert (gaps.events["history"].places != units.events["history"].places)[several_events].any()
    np.testing.assert_allclose(found * there, expected * there, atol=1e-5)
    assert (expected * there).max() > 1e-3


def apart(inputs, names):
    """Sequences with two missing events before the last one, where there is room."""
    changed = {name: inputs[name].copy() for name in names}
    counts = np.any([inputs[name] != 0 for name in names], axis=0).sum(axis=1)
    for row in np.flatnonzero(counts == 3):
        for array in changed.values():
            array[row] = [*array[row, :2], 0, 0, array[row, 2]]
    return changed


def test_a_context_of_the_encoder_stands_in_front_of_the_events(model, units):
    """Tokens pass relevance on, keys of a context take it, and neither has any of its own."""
    rng = np.random.default_rng(2)
    rows = len(units.fields.there)

    def of(kind, *shape):
        return PlaceGradients(
            AttentionPlace(kind, "history"), None, rng.random((2, rows, *shape)), None, None
        )

    target, tokens, keys = of("target_attention", 1, 5), of("encoder", 7, 7), of("encoder", 5, 7)
    count = units.events["history"].there.sum(axis=1)
    full = np.flatnonzero(count == 5)
    assert full.size
    for encoder, shape in ((tokens, (7, 7)), (keys, (5, 7))):
        found = chefer(model, units, [encoder, encoder, target])["events/history"]
        for row in full[:3]:
            step = np.zeros((7, 7))
            step[-shape[0] :] = encoder.raising[1, row]
            start = np.concatenate([[0, 0], target.raising[1, row, 0]])
            relevance = start @ (np.eye(7) + step) @ (np.eye(7) + step)
            if shape == (5, 7):
                events = np.eye(5) + step[2:, 2:]
                np.testing.assert_allclose(relevance[2:], start[2:] @ events @ events)
            np.testing.assert_allclose(found[1, row], relevance[2:][::-1])
    other = of("encoder", 3, 3)  # summaries: no single events
    assert "events/history" not in chefer(model, units, [other, target])


@pytest.mark.thorough
def test_the_weight_of_a_field_is_the_mean_that_it_receives(model, units, attended):
    found = field_attention(model, units, attended)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    layers = [one.weights for one in attended if one.place.kind == "interaction"]
    first = np.mean([weights[:, :, :, 0].mean(axis=(1, 2)) for weights in layers], axis=0)
    np.testing.assert_allclose(found[:, units.fields.names.index("item")], first, atol=1e-6)
    assert (found[~units.fields.there] < 1e-6).all()  # nothing attends a missing field


def test_a_field_has_half_of_each_of_its_pairs(fitted, units):
    """Of AFM, whose only query attends the products of two fields."""
    model = shop.randomised(afm(fitted.schema, width=4, units=3))
    attended = AttentionGradients(model)(units)
    (place,) = attended
    pairs = list(itertools.combinations(interaction_fields(model), 2))
    by_rows = (place.weights[:, 0, 0], field_attention(model, units, attended))
    by_task = (place.raising[0, :, 0], chefer(model, units, attended)[FIELDS][0])
    for weights, found in (by_rows, by_task):
        assert weights.shape[1] == len(pairs)
        for name in ("item", "age"):
            own = [index for index, pair in enumerate(pairs) if name in pair]
            expected = weights[:, own].sum(axis=1) / 2
            assert np.abs(expected).max() > 0
            np.testing.assert_allclose(
                found[:, units.fields.names.index(name)], expected, rtol=1e-5, atol=1e-9
            )
    np.testing.assert_allclose(by_rows[1].sum(axis=1), 1, atol=1e-5)


@pytest.mark.thorough
def test_a_head_counts_by_what_a_larger_output_does(model, units, attended):
    """`sum g * o` is the slope of the logit by a factor of the head's output."""
    step, places = 1e-2, several(attended)
    assert [str(one.place) for one in places] == [
        "encoder 1 of history",
        "encoder 2 of history",
        "target attention of history",
        "encoder 1 of searches",
        "encoder 2 of searches",
        "target attention of searches",
        "interaction 1",
        "interaction 2",
    ]
    for one in places[1::2]:
        for head in range(2):
            ends = []
            for sign in (1, -1):
                factor = np.ones((1, 1, 2, 1), "float32")
                factor[0, 0, head] += sign * step
                ends.append(
                    watched(
                        model,
                        units,
                        lambda place, call, of=one, factor=factor: (
                            call.output * factor if place == of.place else call.output
                        ),
                    )
                )
            slope = (ends[0] - ends[1]) / (2 * step)
            close = np.isclose(one.heads[:, :, head], slope, atol=2e-3, rtol=0.01)
            assert close.mean() > 0.9  # ReLU bends between the two ends of a few rows
        assert (one.sizes >= np.abs(one.heads) - 1e-6).all()
    assert np.abs(places[-1].heads).max() > 0.05


def test_a_head_is_left_out_alone(model, units, attended):
    inputs = units.fields.inputs
    heads = HeadUnits.of(model.schema, inputs, attended)
    assert len(heads.names) == 16
    assert heads.names[-1] == "interaction 2, head 2"
    whole = Logits(model)(inputs)
    logits = HeadLogits(model)
    none = np.zeros(heads.there.shape, bool)
    np.testing.assert_allclose(logits(heads.without(none)), whole, atol=1e-5)
    lost = leave_one_out(logits, whole, heads)

    def change(place, call):
        without_second = np.array([1, 0], "float32")[:, None]
        return call.output * without_second if str(place) == "interaction 2" else call.output

    np.testing.assert_allclose(lost[..., -1], whole - watched(model, units, change), atol=2e-5)
    assert np.abs(lost).max() > 0.05
    joined = side_by_side([one.heads for one in several(attended)], len(heads.there))
    assert joined.shape == lost.shape


@pytest.mark.thorough
def test_heads_over_the_sessions_of_a_row_are_added_up():
    """Self-attention of DSIN has an entry for each session, and a head is one for all of them."""
    item = Categorical("item", dtype="int64")
    seen = Sequence("seen", shares="item", dtype="int64", history="past", max_length=5)
    ages = Sequence("ages", dtype="float32", history="past", max_length=5, transform=Age())
    fitted = shop.fitted(Schema((item, seen, ages), shop.SCHEMA.tasks))
    model = dsin(fitted.schema, width=4, num_heads=2, max_sessions=3, mlp_units=(5,))
    (inputs,) = rows_of(shop.table(7, seed=5, schema=fitted.schema), fitted)
    units = AllUnits.of(fitted.schema, inputs)
    attended = AttentionGradients(model)(units)
    heads = HeadUnits.of(model.schema, inputs, attended)
    assert heads.names == ("encoder 1 of past, head 1", "encoder 1 of past, head 2")
    (found,) = (one.heads for one in several(attended))

    def times(factor):
        def change(place, call):
            return call.output * factor if place.kind == "encoder" else call.output

        return watched(model, units, change)

    first, step = np.array([1, 0], "float32")[:, None], 1e-2
    slope = (times(1 + step * first) - times(1 - step * first)) / (2 * step)
    assert np.isclose(found[..., 0], slope, atol=2e-3, rtol=0.01).mean() > 0.9
    gone = np.array([[True, False]] * len(heads.there))
    np.testing.assert_allclose(HeadLogits(model)(heads.without(gone)), times(1 - first), atol=2e-5)


def test_chefers_rule_finds_the_planted_events():
    table = planted.table()
    fitted = planted.fitted(table)
    (inputs,) = rows_of(table, fitted)
    units, model = AllUnits.of(fitted.schema, inputs), planted.model(fitted)
    attended = AttentionGradients(model)(units)
    like = units.events["history"].by_event(planted.like_events(inputs))
    found = chefer(model, units, attended)
    np.testing.assert_allclose(found["events/history"], [like, 0 * like], atol=1e-5)
    assert FIELDS not in found
    assert field_attention(model, units, attended) is None
    assert HeadUnits.of(fitted.schema, inputs, attended) is None  # one head is all there is
