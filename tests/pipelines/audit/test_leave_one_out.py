"""Logits without single fields and events, against rows that are changed by hand."""

import numpy as np
import pytest

from pipelines.audit.leave_one_out import Logits, deletion, leave_one_out
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import FIELDS, AllUnits, EventUnits
from recsys_attn.models import din
from recsys_attn.schema import Numeric, Schema, Sequence, Task, is_listed
from tests.support import shop

SINGLES = [f.name for f in shop.SCHEMA.features if not isinstance(f, Sequence)]


@pytest.fixture(scope="module")
def inputs(fitted):
    (inputs,) = rows_of(shop.table(17, seed=5), fitted)
    return inputs


@pytest.fixture(scope="module")
def units(fitted, inputs):
    return AllUnits.of(fitted.schema, inputs)


@pytest.fixture(scope="module")
def logits(fitted):
    return Logits(shop.model(fitted))


def rows_by_hand(schema, inputs, kind, unit):
    """The inputs of rows without one unit, row by row, and the rows that have it."""
    changed = {name: array.copy() for name, array in inputs.items()}
    rows = []
    for row in range(len(inputs["item"])):
        if kind == FIELDS and unit < len(SINGLES):
            feature = schema[SINGLES[unit]]
            value, number = inputs[feature.name][row], isinstance(feature, Numeric)
            if np.all(np.isnan(value) if number else value == 0):
                continue
            changed[feature.name][row] = np.nan if number else 0
        else:
            history = list(schema.histories)[unit - len(SINGLES)] if kind == FIELDS else kind
            columns = [sequence.name for sequence in schema.histories[history]]
            events = [e for e in zip(*(inputs[c][row] for c in columns), strict=True) if any(e)]
            if len(events) <= (0 if kind == FIELDS else unit):
                continue
            left = list(events) if kind != FIELDS else []
            if left:
                del left[len(events) - 1 - unit]
            for index, column in enumerate(columns):
                changed[column][row] = 0
                changed[column][row][: len(left)] = [event[index] for event in left]
        rows.append(row)
    return changed, rows


@pytest.mark.parametrize("kind", [FIELDS, "history", "searches"])
def test_each_unit_is_left_out_alone(fitted, inputs, units, logits, kind):
    each = units.by_kind()[kind if kind == FIELDS else f"events/{kind}"]
    whole = logits(inputs)
    found = leave_one_out(logits, whole, each)
    expected = np.zeros_like(found)
    for unit in range(len(each.names)):
        changed, rows = rows_by_hand(fitted.schema, inputs, kind, unit)
        np.testing.assert_array_equal(np.flatnonzero(each.there[:, unit]), rows)
        expected[:, rows, unit] = (whole - logits(changed))[:, rows]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert each.there.any(axis=0).all()
    assert (~each.there).any()
    assert (np.abs(found) > 1e-3).any(axis=(0, 1)).all()


def test_a_removed_event_is_a_masked_one_without_positions(fitted, inputs, units):
    events: EventUnits = units.events["history"]
    logits = Logits(din(fitted.schema, width=4, mlp_units=(5,)))
    moved = logits(events.without(np.eye(5, dtype=bool)[[1] * len(events.there)]))
    masked = {name: inputs[name].copy() for name in events.columns}
    for row in np.flatnonzero(events.there[:, 1]):
        for name in events.columns:
            masked[name][row, events.places[row, 1]] = 0
    np.testing.assert_allclose(moved, logits({**inputs, **masked}), atol=1e-5)


class Additive:
    """Logits of invented rows: the sum of what is left of each event, plus the row's number."""

    schema = Schema((Sequence("seen", max_length=5),), (Task("click"),))

    def __init__(self):
        rng = np.random.default_rng(1)
        self.inputs = {"seen": np.zeros((11, 5), "int32")}
        self.worth = rng.normal(size=100)
        for row, count in enumerate((0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5)):
            self.inputs["seen"][row, :count] = rng.permutation(np.arange(2, 100))[:count]
        self.worth[0] = 0

    def __call__(self, inputs):
        return (self.worth[inputs["seen"]].sum(axis=1) + np.arange(11))[None]


def test_deletion_takes_away_the_most_relevant_first():
    logits = Additive()
    events = AllUnits.of(logits.schema, logits.inputs).events["history"]
    whole = logits(logits.inputs)
    lost = leave_one_out(logits, whole, events)
    np.testing.assert_allclose(lost[0], events.by_event(logits.worth[logits.inputs["seen"]]))
    shares = (0.2, 0.6, 1.0)
    found = deletion(logits, whole, events, lost[0], shares, np.random.default_rng(0))
    for row, there in enumerate(events.there):
        falling = np.sort(lost[0, row, there])[::-1]
        for index, share in enumerate(shares):
            gone = falling[: max(round(share * there.sum()), 1)].sum()
            np.testing.assert_allclose(found[0, row, index], gone, atol=1e-12)


def test_equal_relevances_are_taken_away_in_random_order():
    logits = Additive()
    events = AllUnits.of(logits.schema, logits.inputs).events["history"]
    whole, equal = logits(logits.inputs), np.ones(events.there.shape)
    rng = np.random.default_rng(0)
    found = [deletion(logits, whole, events, equal, (0.2,), rng) for _ in range(400)]
    mean = leave_one_out(logits, whole, events)[0, 5:].mean(axis=1)
    np.testing.assert_allclose(np.mean(found, axis=0)[0, 5:, 0], mean, atol=0.25)
    assert len(np.unique(np.round([each[0, -1, 0] for each in found], 9))) == 5


def test_long_rows_are_measured_in_pieces(fitted, monkeypatch):
    monkeypatch.setattr("pipelines.audit.sampled_rows.AT_ONCE", 7)
    table = shop.table(17, seed=5)
    pieces = list(rows_of(table, fitted))
    assert [len(piece["item"]) for piece in pieces][:-1] == [7] * (len(pieces) - 1)
    assert sum(len(piece["item"]) for piece in pieces) == len(table)
    assert not any(is_listed(f) and f.name not in pieces[0] for f in fitted.schema.features)
