"""What an item is, and what a hidden one is."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import Attributes
from tests.recsys_attn.objectives.histories import (
    assert_loss,
    assert_rows_stand_alone,
    dense,
    hidden_in,
    histories,
    labelled,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import assert_close, numpy
from tests.support.refusals import refusals


def known_in(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The events whose item and category are known."""
    return (inputs["item"] >= 2) & (inputs["category"] >= 2)


@pytest.mark.parametrize("tied", [True, False])
def test_loss_is_the_cross_entropy_from_the_vectors_of_items(tied: bool) -> None:
    model, inputs = model_of("sasrec", tied=tied), histories()
    of = objective("attributes", model, column="category")
    vectors = numpy(model.rows(inputs["item"])[0]).astype("float64")
    each = labelled(dense(of.of_item, vectors), inputs["category"])
    assert_loss(of(model, inputs), each, known_in(inputs))


def test_rows_stand_alone() -> None:
    model = model_of("sasrec")
    assert_rows_stand_alone(objective("attributes", model, column="category"), model, histories())


def test_attributes_of_hidden_events_come_from_their_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, inputs = model_of("bert4rec"), histories()
    of = objective("attributes", model, column="category", hidden=0.4)
    shown = shown_to(model, monkeypatch)
    found, known = of(model, inputs), known_in(inputs)
    hidden = hidden_in(model, shown.events[0])
    assert not hidden[~known].any()
    vectors = numpy(model.rows(inputs["item"])[0]).astype("float64")
    items = labelled(dense(of.of_item, vectors), inputs["category"])[known]
    states = labelled(dense(of.of_state, shown.states[0]), inputs["category"])[hidden]
    assert float(found.count) == len(items) + len(states) > len(items)
    assert_close(found.total, items.sum() + states.sum(), rtol=1e-5)


def test_share_of_the_events_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = model_of("bert4rec"), histories((29,) * 53)
    shown = shown_to(model, monkeypatch)
    objective("attributes", model, column="category", hidden=0.2)(model, inputs)
    assert abs(hidden_in(model, shown.events[0])[known_in(inputs)].mean() - 0.2) < 0.04


def test_missing_column_is_an_error() -> None:
    model = model_of("sasrec")
    of = objective("attributes", model, column="category")
    assert of.columns == ("category",)
    with pytest.raises(
        ValueError, match=r"Attributes reads. Missing: \['category'\]. Received: \['item'\]"
    ):
        of(model, {"item": np.array([[2, 3]])})


test_wrong_arguments = refusals(
    (
        lambda: objective("attributes", model_of("sasrec"), column="category", hidden=0.1),
        "'attributes' hides events",
    ),
    (lambda: Attributes(column="category", hidden=1.5), "`hidden` must be"),
)
