"""Which of two sessions came first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from recsys_attn.objectives import SessionOrder
from tests.recsys_attn.objectives.histories import (
    ITEMS,
    Array,
    Arrays,
    assert_loss,
    binary,
    dense,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import numpy


def with_different_items() -> Arrays:
    """So that each event can be found again."""
    inputs = histories()
    rng = np.random.default_rng(13)
    drawn = np.stack(
        [rng.permutation(ITEMS - 2)[: inputs["item"].shape[1]] for _ in inputs["item"]]
    )
    return {**inputs, "item": np.where(inputs["item"] != 0, 2 + drawn, 0).astype("int32")}


def sessions_of(inputs: Arrays, row: int) -> list[list[int]]:
    """The items of each session of a history, in order."""
    pairs = zip(inputs["session"][row], inputs["item"][row], strict=True)
    found: dict[int, list[int]] = {}
    for session, item in pairs:
        if item:
            found.setdefault(session, []).append(item)
    return list(found.values())


def labels_of(inputs: Arrays, shown: Array) -> tuple[Array, Array]:
    """Whether each row shows two sessions that follow each other, and whether swapped."""
    swapped, valid = [], []
    for row, items in enumerate(shown):
        found = sessions_of(inputs, row)
        events = [item for item in items if item]
        following = list(pairwise(found))
        swapped.append(any(events == second + first for first, second in following))
        right = any(events == first + second for first, second in following)
        valid.append(right or swapped[-1])
        assert len(found) < 2 or valid[-1]
    return np.array(valid), np.array(swapped)


@pytest.mark.parametrize(
    ("name", "schema"), [("bert4rec", "item"), ("sasrec", "item"), ("hstu", "times")]
)
def test_loss_is_the_cross_entropy_of_being_swapped(
    name: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = model_of(name, schema), with_different_items()
    of, shown = objective("session_order", model), shown_to(model, monkeypatch)
    found = of(model, inputs)
    items, states = shown.inputs[0]["item"], shown.states[0]
    valid, swapped = labels_of(inputs, items)
    assert 0 < swapped.sum() < valid.sum() < len(valid)
    mean = states.sum(axis=1) / np.maximum((items != 0).sum(axis=1), 1)[:, None]
    assert_loss(found, binary(dense(of.classifier, mean)[:, 0], swapped), valid)


def test_times_and_other_events_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later events would shift the places, which are counted from the last one."""
    model, inputs = model_of("hstu", "times"), with_different_items()
    shown = shown_to(model, monkeypatch)
    objective("session_order", model)(model, inputs)
    (events,), (given,) = shown.events, shown.inputs
    assert events.times is not None
    assert not events.times.any()
    count = (given["item"] != 0).sum(axis=1)
    places = np.arange(given["item"].shape[1])
    np.testing.assert_array_equal(given["item"] != 0, places < count[:, None])
    np.testing.assert_array_equal(events.present, places < count[:, None])
    age = {item: x for item, x in zip(inputs["item"][0], inputs["age"][0], strict=True) if item}
    for item, x in zip(given["item"][0], given["age"][0], strict=True):
        assert x == age.get(item, 0)


def test_every_two_following_sessions_are_drawn_and_half_of_them_swapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, rows = model_of("sasrec"), 499
    inputs = {
        "item": np.tile([2, 3, 4, 5, 6, 7, 0], (rows, 1)),
        "session": np.tile([4, 4, 2, 9, 4, 4, 0], (rows, 1)),  # one comes back: another session
    }
    shown = shown_to(model, monkeypatch)
    objective("session_order", model)(model, inputs)
    found, counts = np.unique(shown.inputs[0]["item"], axis=0, return_counts=True)
    pairs = [[2, 3, 4], [4, 2, 3], [4, 5], [5, 4], [5, 6, 7], [6, 7, 5]]
    assert sorted([item for item in row if item] for row in found.tolist()) == sorted(pairs)
    assert counts.min() > 0.6 * rows / len(pairs)


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ([2, 2, 3, 3, 0], [1, 1, 2, 2, 0]),
        ([1, 2, 2, 0, 0], [1, 2, 2, 0, 0]),
        ([2, 2, 2, 2, 2], None),
        ([0, 0, 0, 0, 0], None),
    ],
)
def test_sessions_begin_where_the_number_changes(session: list[int], expected: Any) -> None:
    first, second, valid = map(numpy, SessionOrder().pair(np.array([session])))
    assert valid.tolist() == [expected is not None]
    if expected is not None:
        assert (first + 2 * second).tolist() == [expected]


def test_histories_of_one_session_teach_nothing() -> None:
    model = model_of("sasrec")
    inputs = {"item": np.array([[2, 3, 4]]), "session": np.array([[5, 5, 5]])}
    found = objective("session_order", model)(model, inputs)
    assert (float(found.total), float(found.count)) == (0, 0)


def test_missing_session_is_an_error() -> None:
    model = model_of("sasrec")
    of = objective("session_order", model, session="visit")
    with pytest.raises(ValueError, match=r"SessionOrder reads. Missing: \['visit'\]"):
        of(model, histories())
