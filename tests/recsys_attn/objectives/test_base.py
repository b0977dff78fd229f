"""What every objective has."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from recsys_attn import objectives
from recsys_attn.models import SequenceModel
from recsys_attn.objectives import OBJECTIVES, Objective
from tests.recsys_attn.objectives.histories import SIZES, histories, model_of
from tests.recsys_attn.objectives.histories import objective as made
from tests.support.arrays import numpy

OPTIONS = {"attributes": {"column": "category"}}
OWN_WEIGHTS = {"actions": 2, "attributes": 2, "replaced_item": 2, "segment": 1, "session_order": 2}
names = pytest.mark.parametrize("name", OBJECTIVES)


def fitting(name: str) -> SequenceModel:
    if name == "actions":
        return model_of("sasrec", "actions", action="action")
    both = {"masked_item": "bert4rec", "segment": "bert4rec", "permutation": "xlnet"}
    return model_of(both.get(name, "sasrec"))


@pytest.mark.sampled(3)
@names
def test_loss_is_finite_and_adds_up_over_predictions(name: str) -> None:
    model = fitting(name)
    of = made(name, model, weight=0.3, **OPTIONS.get(name, {}))
    total, count = of(model, histories())
    assert float(count) == int(count) > 0
    assert np.isfinite(float(total))
    assert float(total) > 0
    assert of.weight == 0.3


@pytest.mark.sampled(3)
@names
def test_only_weights_of_its_own_are_trained(name: str) -> None:
    model = fitting(name)
    of = made(name, model, **OPTIONS.get(name, {}))
    assert len(of.trainable_variables) == OWN_WEIGHTS.get(name, 0)
    of(model, histories())
    assert len(of.trainable_variables) == OWN_WEIGHTS.get(name, 0)


@pytest.mark.sampled(3)
@names
def test_histories_without_events_have_no_loss(name: str) -> None:
    model = fitting(name)
    inputs = {key: np.zeros((3, 5), "int32") for key in (*SIZES, "age")}
    found = made(name, model, **OPTIONS.get(name, {}))(model, inputs)
    assert [float(x) for x in found] == [0, 0]


@pytest.mark.sampled(3)
@names
def test_next_draws_are_others(name: str) -> None:
    """And a restored state of the draws repeats them."""
    model = fitting(name)
    of, inputs = made(name, model, **OPTIONS.get(name, {})), histories()
    saved = [numpy(variable) for variable in of.non_trainable_variables]
    first, second = (float(of(model, inputs).total) for _ in range(2))
    for variable, value in zip(of.non_trainable_variables, saved, strict=True):
        variable.assign(value)
    assert float(of(model, inputs).total) == pytest.approx(first, rel=1e-6)
    assert (first != second) == (name not in ("actions", "attributes", "next_item"))


def test_all_objectives_are_exported() -> None:
    exported = {value for value in vars(objectives).values() if inspect.isclass(value)}
    assert set(OBJECTIVES.values()) <= exported


def test_an_objective_must_be_implemented() -> None:
    model = model_of("sasrec")
    with pytest.raises(NotImplementedError, match="Objective must implement `call`"):
        Objective()(model, histories())
