"""Each event from those before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.objectives import NextItem
from tests.recsys_attn.objectives.histories import (
    ITEMS,
    assert_loss,
    assert_rows_stand_alone,
    catalogue_losses,
    histories,
    model_of,
    objective,
    shown_to,
)
from tests.support.arrays import numpy
from tests.support.refusals import refusals

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sasrec": ("sasrec", "item", {}),
    "second table": ("sasrec", "item", {"tied": False}),
    "hstu with times": ("hstu", "times", {}),
    "hstu with actions": ("hstu", "actions", {"action": "action"}),
    "gru": ("sequence_encoder", "item", {}),
}
CAUSAL = {"pattern": "causal"}
MLP = {"class_name": "mlp", "config": {"units": [4]}}


def block(**options: Any) -> dict[str, Any]:
    attention = {"class_name": "transformer", "config": CAUSAL}
    return {"class_name": "block", "config": {"attention": attention, **options}}


WITH_STATISTICS: dict[str, Any] = {
    "norm": block(norm="batch"),
    "activation": block(activation="dice"),
    "din": {"class_name": "din", "config": CAUSAL},
    "score": {"class_name": "dense", "config": {"score": MLP, **CAUSAL}},
}
WITHOUT_STATISTICS: dict[str, Any] = {
    "norm": block(norm="layer"),
    "interest": {"class_name": "interest", "config": CAUSAL},
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    name, schema, options = MODELS[request.param]
    return model_of(name, schema, **options)


@pytest.mark.sampled(2)
def test_loss_is_the_cross_entropy_of_each_next_item(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, shown = histories(), shown_to(model, monkeypatch)
    found = objective("next_item", model)(model, inputs)
    states = shown.states[0][:, model.per_event - 1 :: model.per_event]
    following = inputs["item"][:, 1:]
    assert_loss(found, catalogue_losses(model, states, following), following >= 2)


def test_last_event_is_a_target_alone(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, shown = histories(), shown_to(model, monkeypatch)
    NextItem()(model, inputs)
    has_next = np.pad(inputs["item"][:, 1:] != 0, ((0, 0), (0, 1)))
    for name, x in shown.inputs[0].items():
        np.testing.assert_array_equal(x, np.where(has_next, inputs[name], 0)[:, :-1])


@pytest.mark.sampled(2)
def test_rows_stand_alone(model: Any) -> None:
    assert_rows_stand_alone(NextItem(), model, histories())


@pytest.mark.sampled(2)
def test_no_prediction_sees_its_item(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed item changes no state at or before the one that predicts it."""
    inputs, shown = histories(), shown_to(model, monkeypatch)
    changed = {name: x.copy() for name, x in inputs.items()}
    changed["item"][0, 4] = 2 + (inputs["item"][0, 4] - 1) % (ITEMS - 2)
    NextItem()(model, inputs)
    NextItem()(model, changed)
    before, after = shown.states
    same = 4 * model.per_event
    np.testing.assert_allclose(before[0, :same], after[0, :same], atol=1e-6)
    assert np.abs(before[0, same:] - after[0, same:]).max() > 1e-3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoder", WITH_STATISTICS)
def test_statistics_of_a_batch_are_refused(encoder: str) -> None:
    """They tell of a later event in training alone."""
    model = model_of_encoder(WITH_STATISTICS[encoder])
    assert later_event_changes(model, training=True) > 1e-3
    assert later_event_changes(model, training=False) < 1e-6
    with pytest.raises(ValueError, match=r"statistics of a batch .* Use norm='layer'"):
        objective("next_item", model)


@pytest.mark.parametrize("encoder", WITHOUT_STATISTICS)
def test_encoders_without_statistics_are_accepted(encoder: str) -> None:
    model = model_of_encoder(WITHOUT_STATISTICS[encoder])
    assert later_event_changes(model, training=True) < 1e-6
    objective("next_item", model)


def model_of_encoder(encoder: dict[str, Any]) -> Any:
    return model_of.__wrapped__("sequence_encoder", encoder=encoder)  # a dict is not hashable


def later_event_changes(model: Any, training: bool) -> float:
    """By how much the states before an event differ when its item is another one."""
    inputs = histories()
    changed = {**inputs, "item": inputs["item"].copy()}
    changed["item"][0, 4] = 2 + (inputs["item"][0, 4] - 1) % (ITEMS - 2)
    one, other = (numpy(model.encode(model.events(x), training)) for x in (inputs, changed))
    return float(np.abs(one[0, :4] - other[0, :4]).max())


def test_items_are_drawn_by_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where training had one item alone, all three draws are that one, or the target itself."""
    model, inputs, counts = model_of("sasrec"), histories(), np.zeros(ITEMS, "float32")
    config = {"by": "popularity", "correction": False, "negatives": 3}
    of = NextItem(loss={"class_name": "sampled_softmax", "config": config})
    counts[7] = 5
    shown = shown_to(model, monkeypatch)
    found, targets = of(model, inputs, counts), inputs["item"][:, 1:]
    scores = numpy(model.scores(shown.states[0])).astype("float64")
    target = np.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
    each = np.logaddexp(target, np.log(3) + scores[..., 7]) - target
    assert_loss(found, np.where(targets == 7, 0, each), targets >= 2)
    with pytest.raises(ValueError, match="needs `counts`"):
        of(model, inputs)


test_wrong_arguments = refusals(
    (lambda: objective("next_item", model_of("bert4rec")), "'next_item' predicts each event from"),
    (lambda: objective("next_item", model_of("xlnet")), "Use a causal encoder"),
    (lambda: NextItem(loss="softmaxx"), "Did you mean 'softmax'"),
    (lambda: NextItem(weight=0), "`weight` must be"),
)
