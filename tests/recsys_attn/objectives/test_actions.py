"""What a user does with each item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.objectives import Actions
from tests.recsys_attn.objectives.histories import (
    ACTIONS,
    ITEMS,
    assert_loss,
    assert_rows_stand_alone,
    dense,
    histories,
    labelled,
    model_of,
    objective,
    shown_to,
)
from tests.support.refusals import refusals


@pytest.fixture(params=["sasrec", "hstu"])
def model(request: pytest.FixtureRequest) -> Any:
    return model_of(request.param, "actions", action="action")


def test_loss_is_the_cross_entropy_of_each_action(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, of = histories(), objective("actions", model)
    shown = shown_to(model, monkeypatch)
    found = of(model, inputs)
    logits = dense(of.classifier, shown.states[0][:, ::2])
    assert_loss(found, labelled(logits, inputs["action"]), inputs["action"] >= 2)


def test_rows_stand_alone(model: Any) -> None:
    assert_rows_stand_alone(objective("actions", model), model, histories())


def test_action_is_predicted_from_its_item_and_not_from_itself(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, of, shown = histories(), objective("actions", model), shown_to(model, monkeypatch)
    of(model, inputs)
    for name, size in (("action", ACTIONS), ("item", ITEMS)):
        changed = inputs[name].copy()
        changed[0, 4] = 2 + (changed[0, 4] - 1) % (size - 2)
        of(model, {**inputs, name: changed})
    by_action, by_item = (np.abs(x - shown.states[0])[0, ::2] for x in shown.states[1:])
    assert by_action[:5].max() < 1e-6
    assert by_action[5:].max() > 1e-3
    assert by_item[:4].max() < 1e-6
    assert by_item[4].max() > 1e-3


test_wrong_arguments = refusals(
    (
        lambda: objective("actions", model_of("sasrec", "actions")),
        "needs a model whose items and actions are one sequence.*action=None",
    ),
    (lambda: Actions(weight=-1), "`weight` must be"),
)
