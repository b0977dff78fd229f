"""Options of functions and tables are checked by their annotations, and errors name their path."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import keras
import numpy as np
import pytest

from recsys_attn.model_names import NEW_KEYS, arguments_by_model, new_key
from recsys_attn.models import MODELS, din
from recsys_attn.models.option_types import Count
from recsys_attn.options import CheckedFunctions, Table, parameters
from recsys_attn.schema import Categorical, Schema, Sequence, Task

SCHEMA = Schema((Categorical("item", size=7), Sequence("seen", shares="item")), (Task("click"),))
SHAPES: CheckedFunctions[Any] = CheckedFunctions("shape")


@dataclass(frozen=True, kw_only=True)
class Corner(Table):
    radius: Count
    kind: Literal["round", "sharp"] = "round"


@dataclass(frozen=True, kw_only=True)
class Edge(Table):
    name: str = "solid"
    width: Count = 1
    corner: Annotated[Any, Corner] | None = None


@SHAPES.register("square")
def square(
    side: float,
    *,
    count: Count = 1,
    filled: bool = False,
    edge: Annotated[Any, Edge] = Edge(width=3),
    label: str | None = None,
    other: Any = None,
) -> dict[str, Any]:
    """Returns its options."""
    return {"count": count, "filled": filled, "edge": edge, "label": label, "other": other}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"count": 0}, "`count`: expected a positive integer. Received: 0"),
    ({"count": True}, "`count`: expected a positive integer. Received: True"),
    ({"count": None}, "`count`: expected a positive integer. Received: None"),
    ({"filled": 1}, "`filled`: expected True or False. Received: 1"),
    ({"label": 3}, "`label`: expected a string. Received: 3"),
    ({"cuont": 2}, "`cuont` is unknown. .* Did you mean 'count'?"),
    ({"edge": {"width": 0}}, "`edge.width`: expected a positive integer. Received: 0"),
    ({"edge": {"widht": 2}}, "`edge.widht` is unknown. .* Did you mean 'width'?"),
    ({"edge": {"corner": {}}}, "`edge.corner.radius` is missing"),
    ({"edge": {"corner": {"radius": 1, "kind": "rond"}}}, "`edge.corner.kind`: .*mean 'round'?"),
    ({"edge": {"corner": "round"}}, r"`edge.corner`: expected a table with keys of \['kind'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_option_is_named_by_its_path(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        square(1.0, **options)


def test_table_takes_the_default_of_keys_that_are_left_out() -> None:
    assert square(1.0)["edge"] == Edge(width=3)
    assert square(1.0, edge="dashed")["edge"] == Edge(name="dashed", width=3)
    assert square(1.0, edge={"name": "dashed", "width": 2})["edge"] == Edge(name="dashed", width=2)


def test_config_is_the_name_of_a_table() -> None:
    config = {"class_name": "dotted", "config": {}}
    assert Corner.of({"radius": 2}) == Corner.of(Corner(radius=2)) == Corner(radius=2)
    with pytest.raises(ValueError, match=r"`edge.name`: expected a string"):
        square(1.0, edge=config)


def test_checked_function_keeps_its_signature_and_text() -> None:
    assert SHAPES["square"] is square
    assert square.__doc__ == "Returns its options."
    assert list(inspect.signature(square).parameters)[:2] == ["side", "count"]


def test_check_leaves_the_seeds_of_initial_weights() -> None:
    """An option that is given equals the same one by default, to the bit."""
    models = []
    every: list[dict[str, Any]] = [{}, {"target_attention": "din", "activation": "dice"}]
    for options in every:
        keras.utils.set_random_seed(3)
        models.append(din(SCHEMA, width=4, mlp_units=(5,), **options))
    for first, second in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(first, second)


def test_old_keys_name_keys_that_a_model_has() -> None:
    """And no model has both an old key and its table."""
    models = [{k: keys or () for k, keys in each.items()} for each in arguments_by_model().values()]
    for key, places in NEW_KEYS.items():
        for place in places:
            table, _, name = place.partition(".")
            owners = [tables for tables in models if name in tables.get(table, ())]
            assert owners, place
            assert all(key not in tables for tables in owners), place


def test_old_argument_says_its_new_key() -> None:
    with pytest.raises(ValueError, match=r"`encoder_layers` is now `encoder = { num_layers = 2 }`"):
        din(SCHEMA, encoder="gru", encoder_layers=2)
    tables = {"target_attention": ("name", "num_heads")}
    assert new_key("target_heads", 4, tables, "model.") == (
        "`model.target_heads` is now `target_attention = { num_heads = 4 }`."
    )
    assert new_key("encoder_layers", 4, tables) == ""


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_has_at_most_ten_arguments(name: str) -> None:
    """Besides the schema; more of them are a table."""
    assert len(parameters(MODELS[name])) <= 11
