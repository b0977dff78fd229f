"""Models of tasks in an order need labels of all of them in the same rows."""

import pytest

from pipelines.common.errors import PipelineError
from pipelines.training.label_checks import check_same_rows
from recsys_attn.models import aitm, esmm, mlp
from recsys_attn.schema import Categorical, Schema, Task

SCHEMA = Schema((Categorical("item", size=3),), (Task("click"), Task("buy")))


def labels(click: list[int], buy: list[int]) -> dict[str, dict[str, list[int]]]:
    return {"click": {"train": click}, "buy": {"train": buy}}


def test_null_labels_of_a_later_task_are_refused() -> None:
    model = esmm(SCHEMA, width=2, tower_units=())
    check_same_rows(model, labels([10, 5], [10, 2]))
    with pytest.raises(PipelineError, match=r"must be 0, and not null.*5 rows.*'buy', 10 with"):
        check_same_rows(model, labels([10, 5], [5, 2]))
    with pytest.raises(PipelineError, match=r"in their order.*6 positive rows of 'buy' after 5"):
        check_same_rows(model, labels([10, 5], [10, 6]))


def test_other_models_may_have_unknown_labels() -> None:
    check_same_rows(mlp(SCHEMA, width=2, units=(2,)), labels([10, 5], [5, 2]))
    check_same_rows(aitm(SCHEMA, tower_units=(2,), order_penalty=0), labels([10, 5], [5, 2]))
    assert aitm(SCHEMA, tower_units=(2,)).same_rows
