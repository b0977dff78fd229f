"""Which events were replaced."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import ReplacedItem
from tests.recsys_attn.objectives.histories import (
    ITEMS,
    assert_loss,
    binary,
    dense,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.refusals import refusals


@pytest.mark.parametrize(
    ("name", "schema", "action"),
    [("sasrec", "item", None), ("bert4rec", "times", None), ("hstu", "actions", "action")],
)
def test_loss_is_the_cross_entropy_of_being_replaced(
    name: str, schema: str, action: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(name, schema, **({"action": action} if action else {}))
    inputs, of = histories(), objective("replaced_item", model, share=0.4)
    shown = shown_to(model, monkeypatch)
    found = of(model, inputs)
    states = shown.states[0][:, model.per_event - 1 :: model.per_event]
    replaced = shown.inputs[0]["item"] != inputs["item"]
    logits = dense(of.classifier, states)[..., 0]
    assert_loss(found, binary(logits, replaced), inputs["item"] >= 2)
    for other in shown.inputs[0].keys() - {"item"}:
        np.testing.assert_array_equal(shown.inputs[0][other], inputs[other])


def test_items_are_replaced_by_drawn_ones_and_reserved_ids_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of("sasrec")
    inputs = histories((53,) * 61)
    item, shown = inputs["item"], shown_to(model, monkeypatch)
    objective("replaced_item", model, share=0.3)(model, inputs)
    given = shown.inputs[0]["item"]
    replaced = given != item
    np.testing.assert_array_equal(given[item < 2], item[item < 2])
    different = 1 - 1 / (ITEMS - 2)  # the drawn item may be the same
    assert abs(replaced[item >= 2].mean() - 0.3 * different) < 0.03
    counts = np.bincount(given[replaced], minlength=ITEMS)
    assert counts[:2].sum() == 0
    assert counts[2:].min() > 0.5 * counts.sum() / (ITEMS - 2)


def test_padding_does_not_count() -> None:
    model, inputs = model_of("sasrec"), histories()
    longer = {name: np.pad(x, ((0, 3), (0, 2))) for name, x in inputs.items()}
    of = objective("replaced_item", model)
    assert float(of(model, longer).count) == float(of(model, inputs).count)


test_wrong_arguments = refusals((lambda: ReplacedItem(share=1), "`share` must be"))
