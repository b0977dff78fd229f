"""Events from those before them in a drawn order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.objectives import Permutation
from tests.recsys_attn.objectives.histories import (
    ITEMS,
    LENGTHS,
    assert_loss,
    catalogue_losses,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import numpy
from tests.support.refusals import refusals


def order_of(lengths: tuple[int, ...], share: float) -> tuple[Any, Any, Any]:
    """Ranks, which are predicted, and which are present."""
    present = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return *map(numpy, Permutation(share=share).order(present)), present


def test_loss_is_the_cross_entropy_of_the_predicted_items(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = model_of("xlnet"), histories()
    shown = shown_to(model, monkeypatch)
    found = objective("permutation", model, share=0.5)(model, inputs)
    each = catalogue_losses(model, shown.states[0], inputs["item"])
    assert_loss(found, each, (shown.ranks[0] > 0) & (inputs["item"] >= 2))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99])
def test_share_of_each_history_has_ranks_of_its_own(share: float) -> None:
    """The others have rank 0, and see each other."""
    ranks, predicted, present = order_of(LENGTHS, share)
    np.testing.assert_array_equal(predicted, ranks > 0)
    assert not predicted[~present].any()
    for row, length in zip(ranks, LENGTHS, strict=True):
        number = int(np.ceil(np.float32(share) * length))
        assert sorted(row[row > 0]) == list(range(1, number + 1))


def test_every_order_is_drawn() -> None:
    ranks = order_of((4,) * 997, 0.5)[0]
    orders, counts = np.unique(ranks, axis=0, return_counts=True)
    assert len(orders) == 12  # of the first and the second of four places
    assert counts.min() > 0.6 * 997 / 12


def test_no_prediction_sees_its_item_or_later_ones_of_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, inputs, of = model_of("xlnet"), histories(), Permutation(share=0.6)
    shown, start = shown_to(model, monkeypatch), numpy(of.draws.state)
    of(model, inputs)
    ranks, other = shown.ranks[0], 2 + (inputs["item"] - 1) % (ITEMS - 2)
    for first in range(1, ranks.max() + 1):
        of.draws.state.assign(start)
        changed = (ranks >= first) & (inputs["item"] != 0)
        of(model, {"item": np.where(changed, other, inputs["item"])})
        np.testing.assert_array_equal(shown.ranks[-1], ranks)
        change = np.abs(shown.states[-1] - shown.states[0]).max(axis=-1)
        assert change[ranks <= first].max() < 1e-6
        if first < ranks.max():
            assert change[ranks > first].min() > 1e-5


def test_queries_know_their_places() -> None:
    """Two events of one rank differ in their states by their places alone."""
    model = model_of("xlnet")
    events = model.events({"item": np.array([[2, 3, 4, 5]])})
    states = numpy(model.query_states(events, np.array([[0, 1, 0, 1]])))[0]
    assert np.abs(states[1] - states[3]).max() > 1e-3


def test_last_of_the_order_is_what_is_predicted_in_use() -> None:
    model, item = model_of("xlnet"), np.array([[2, 3, 4, 5]])
    states = model.query_states(model.events({"item": item}), np.array([[0, 0, 0, 1]]))
    expected = model.next_states({"item": item[:, :3]})
    np.testing.assert_allclose(numpy(states)[:, 3], numpy(expected), atol=1e-5)


test_wrong_arguments = refusals(
    (lambda: objective("permutation", model_of("bert4rec")), "predicts from a stream of queries"),
    (lambda: objective("permutation", model_of("sasrec")), "Use the model 'xlnet'"),
    (lambda: Permutation(share=0), "`share` must be"),
)
