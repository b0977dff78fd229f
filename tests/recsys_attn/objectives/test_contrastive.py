"""Two views of a history are alike."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import Contrastive
from tests.recsys_attn.objectives.histories import (
    LENGTHS,
    Arrays,
    histories,
    model_of,
    objective,
    present_in,
    shown_to,
)
from tests.support.arrays import assert_close, numpy
from tests.support.refusals import refusals

Events = list[tuple[int, ...]]


def view_of(inputs: Arrays, **options: object) -> Arrays:
    view = Contrastive(**options).view(inputs, present_in(inputs), "item")
    return {name: numpy(x) for name, x in view.items()}


def events_of(inputs: Arrays, row: int) -> Events:
    """The events of a history, each with its ids of all sequences."""
    ids = np.stack([x[row] for x in inputs.values()], axis=1)
    return [tuple(event) for event in ids.tolist() if any(event)]


def test_crop_keeps_following_events_at_the_front() -> None:
    inputs = histories()
    view = view_of(inputs, views=("crop",), crop=0.5)
    for row, length in enumerate(LENGTHS):
        whole, kept = events_of(inputs, row), events_of(view, row)
        assert len(kept) == (max(1, length // 2) if length else 0)
        assert any(whole[begin : begin + len(kept)] == kept for begin in range(length + 1))
        assert present_in(view)[row, : len(kept)].all()


def test_every_part_is_cropped() -> None:
    inputs = {"item": np.tile([2, 3, 4, 5, 6, 0], (499, 1))}
    found, counts = np.unique(
        view_of(inputs, views=("crop",), crop=0.6)["item"], axis=0, return_counts=True
    )
    assert found[:, :4].tolist() == [[2, 3, 4, 0], [3, 4, 5, 0], [4, 5, 6, 0]]
    assert counts.min() > 0.7 * 499 / 3


def test_mask_makes_items_unknown_and_changes_nothing_else() -> None:
    inputs = histories((47,) * 31 + (3,))
    view = view_of(inputs, views=("mask",), mask=0.3)
    changed = view["item"] != inputs["item"]
    assert (view["item"][changed] == 1).all()
    for name in inputs.keys() - {"item"}:
        np.testing.assert_array_equal(view[name], inputs[name])
    assert abs(changed[inputs["item"] >= 2].mean() - 0.3) < 0.04


def test_reorder_mixes_a_part_and_keeps_all_events() -> None:
    inputs, mixed = histories((11, 7, 5, 2, 1, 0) * 23), []
    view = view_of(inputs, views=("reorder",), reorder=0.5)
    for row in range(len(inputs["item"])):
        before, after = events_of(inputs, row), events_of(view, row)
        assert sorted(before) == sorted(after)
        assert present_in(view)[row, : len(after)].all()
        moved = [
            place for place, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
        ]
        mixed += [moved[-1] - moved[0] + 1 - len(before) // 2] if moved else []
    assert max(mixed) == 0  # the whole part of half of the events
    assert len(mixed) > 50


def test_kinds_of_views_are_drawn_alike() -> None:
    inputs = {"item": np.tile(np.arange(2, 103), (499, 1))}
    items = view_of(inputs)["item"]
    cropped, masked = (items == 0).any(axis=1), (items == 1).any(axis=1)
    shares = cropped.mean(), masked.mean(), 1 - (cropped | masked).mean()
    assert not (cropped & masked).any()
    assert np.abs(np.array(shares) - 1 / 3).max() < 0.07


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sasrec", "bert4rec", "xlnet"])
def test_loss_is_the_cross_entropy_of_the_other_view(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histories of one event or none neither count nor are told apart from."""
    model, inputs = model_of(name), histories()
    of, shown = objective("contrastive", model, temperature=0.3), shown_to(model, monkeypatch)
    found = of(model, inputs)
    states = numpy(model.next_states(shown.inputs[0])).astype("float64")
    vectors = states / np.maximum(np.linalg.norm(states, axis=1), 1e-6)[:, None]
    rows, total = len(LENGTHS), 0.0
    views = [view for view in range(2 * rows) if LENGTHS[view % rows] > 1]
    for view in views:
        others = {u: vectors[view] @ vectors[u] / 0.3 for u in views if u != view}
        partner = view + rows if view < rows else view - rows
        total += np.logaddexp.reduce(list(others.values())) - others[partner]
    assert float(found.count) == len(views)
    assert_close(found.total, total, rtol=1e-5)


def test_one_history_has_nothing_to_tell_it_from() -> None:
    model = model_of("sasrec")
    found = objective("contrastive", model)(model, {"item": np.array([[2, 3, 4], [5, 0, 0]])})
    assert float(found.count) == 2
    assert_close(found.total, 0, atol=1e-6)


def test_histories_of_one_event_have_no_loss() -> None:
    model = model_of("sasrec")
    found = objective("contrastive", model)(model, {"item": np.array([[2, 0], [5, 0], [0, 0]])})
    assert (float(found.total), float(found.count)) == (0, 0)


test_wrong_arguments = refusals(
    (lambda: Contrastive(views="crop"), "`views` must be a list of kinds. Received: views='crop'"),
    (lambda: Contrastive(views=()), "`views` must be a list"),
    (lambda: Contrastive(views=("corp",)), "Did you mean 'crop'"),
    (lambda: Contrastive(crop=1.0), "`crop` must be"),
    (lambda: Contrastive(mask=0), "`mask` must be"),
    (lambda: Contrastive(reorder=-1), "`reorder` must be"),
    (lambda: Contrastive(temperature=0), "`temperature` must be"),
)
