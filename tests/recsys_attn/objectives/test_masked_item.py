"""Hidden events from those on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import MaskedItem
from tests.recsys_attn.objectives.histories import (
    ITEMS,
    LENGTHS,
    assert_loss,
    assert_rows_stand_alone,
    catalogue_losses,
    hidden_in,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import numpy
from tests.support.refusals import refusals


def hidden_of(lengths: tuple[int, ...], **options: float) -> np.ndarray:
    present = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return numpy(MaskedItem(**options).hidden(present))


@pytest.mark.parametrize("schema", ["item", "times"])
def test_loss_is_the_cross_entropy_of_the_hidden_items(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = model_of("bert4rec", schema), histories()
    shown = shown_to(model, monkeypatch)
    found = objective("masked_item", model, share=0.4)(model, inputs)
    hidden = hidden_in(model, shown.events[0])
    each = catalogue_losses(model, shown.states[0], inputs["item"])
    assert_loss(found, each, hidden & (inputs["item"] >= 2))
    assert np.all(hidden.any(axis=1) == (np.array(LENGTHS) > 0))


def test_hidden_event_is_what_stands_behind_a_history_in_use() -> None:
    """With only the last one hidden, the loss is that of the scores of the next item."""
    model, inputs = model_of("bert4rec"), histories()
    found = objective("masked_item", model, last=1.0)(model, inputs)
    rows, count = np.arange(len(LENGTHS)), np.array(LENGTHS)
    before, last = inputs["item"].copy(), np.maximum(count - 1, 0)
    targets = before[rows, last]
    before[rows, last] = 0
    states = numpy(model.next_states({"item": before})).astype("float64")
    assert_loss(found, catalogue_losses(model, states, targets), (count > 0) & (targets >= 2))


def test_rows_stand_alone() -> None:
    assert_rows_stand_alone(MaskedItem(last=1.0), model_of("bert4rec"), histories())


def test_no_prediction_sees_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other items at the hidden places change no state; others elsewhere do."""
    model, inputs, of = model_of("bert4rec"), histories(), MaskedItem(share=0.4)
    shown, start = shown_to(model, monkeypatch), numpy(of.draws.state)
    of(model, inputs)
    hidden = hidden_in(model, shown.events[0])
    other = np.where(inputs["item"] == 0, 0, 2 + (inputs["item"] - 1) % (ITEMS - 2))
    for where in (hidden, ~hidden):
        of.draws.state.assign(start)
        of(model, {**inputs, "item": np.where(where, other, inputs["item"])})
    same, different = (np.abs(states - shown.states[0]) for states in shown.states[1:])
    assert same.max() < 1e-6
    assert different[hidden].max() > 1e-3


def test_share_of_the_events_is_hidden() -> None:
    hidden = hidden_of((101,) * 97, share=0.3, last=0.0)
    assert abs(hidden.mean() - 0.3) < 0.02
    assert np.abs(hidden.mean(axis=0) - 0.3).max() < 0.25  # at each place


def test_every_history_has_a_hidden_event_and_no_padding_is_hidden() -> None:
    lengths = (5, 3, 2, 1, 0) * 41
    hidden = hidden_of(lengths, share=0.05, last=0.0)
    present = np.arange(5) < np.array(lengths)[:, None]
    np.testing.assert_array_equal(hidden.any(axis=1), present.any(axis=1))
    assert not hidden[~present].any()
    drawn = hidden[present.sum(axis=1) == 5].mean(axis=0)
    assert drawn.min() > 0.05  # no place is the one by default


def test_share_of_the_histories_has_only_the_last_event_hidden() -> None:
    hidden = hidden_of((23,) * 499, share=0.5, last=0.25)
    only_last = hidden[:, -1] & (hidden.sum(axis=1) == 1)
    assert abs(only_last.mean() - 0.25) < 0.06


test_wrong_arguments = refusals(
    (lambda: objective("masked_item", model_of("sasrec")), "'masked_item' hides events"),
    (lambda: objective("masked_item", model_of("xlnet")), "model='xlnet'"),
    (lambda: MaskedItem(share=1.0), "`share` must be"),
    (lambda: MaskedItem(last=1.1), "`last` must be"),
)
