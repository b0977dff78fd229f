"""Which segment is missing from a history."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import Segment
from tests.recsys_attn.objectives.histories import (
    LENGTHS,
    Array,
    assert_loss,
    dense,
    hidden_in,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import numpy
from tests.support.refusals import refusals


def mean(states: Array, present: Array) -> Array:
    count = np.maximum(present.sum(axis=1), 1)[:, None]
    return np.asarray((states * present[..., None]).sum(axis=1) / count)


@pytest.mark.parametrize("schema", ["item", "times"])
def test_loss_tells_the_own_segment_from_that_of_the_row_before(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = model_of("bert4rec", schema), histories()
    of, shown = objective("segment", model), shown_to(model, monkeypatch)
    found = of(model, inputs)
    context, own = (mean(x, e.present) for x, e in zip(shown.states, shown.events, strict=True))
    query = dense(of.bilinear, context)
    each, counted = np.zeros(len(LENGTHS)), np.zeros(len(LENGTHS), bool)
    for row in range(len(LENGTHS)):
        each[row] = np.logaddexp(0, query[row] @ (own[row - 1] - own[row]))
        counted[row] = min(LENGTHS[row], LENGTHS[row - 1]) > 2
    assert_loss(found, each, counted)


def test_segment_is_hidden_from_the_history_and_shown_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, inputs = model_of("bert4rec", "times"), histories()
    shown = shown_to(model, monkeypatch)
    objective("segment", model, share=0.6)(model, inputs)
    hidden, alone = hidden_in(model, shown.events[0]) & shown.events[0].present, shown.inputs[1]
    for row, length in enumerate(LENGTHS):
        size = hidden[row].sum()
        assert size == (alone["item"][row] != 0).sum()
        assert size <= max(1, 0.6 * length)
        for name, x in alone.items():
            np.testing.assert_array_equal(x[row, :size], inputs[name][row][hidden[row]])
        places = np.flatnonzero(hidden[row])
        assert len(places) == 0 or places[-1] - places[0] + 1 == size


def test_every_begin_and_size_is_drawn() -> None:
    count = np.full((997, 1), 7)
    begin, size = map(numpy, Segment(share=0.5).part(count))
    assert np.unique(size).tolist() == [1, 2, 3]
    for each in (1, 2, 3):
        assert np.unique(begin[size == each]).tolist() == list(range(7 - each + 1))


def test_one_history_alone_teaches_nothing() -> None:
    model = model_of("bert4rec")
    found = objective("segment", model)(model, {"item": np.array([[2, 3, 4, 5]])})
    assert (float(found.total), float(found.count)) == (0, 0)


test_wrong_arguments = refusals(
    (lambda: objective("segment", model_of("sasrec")), "'segment' hides events"),
    (lambda: Segment(share=1.0), "`share` must be"),
)
