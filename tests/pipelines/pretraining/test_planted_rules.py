"""What objectives learn: rules that are planted in the histories, and found or not.

Every number is of histories that were not trained on.
"""

from typing import Any

import numpy as np
import pytest

from tests.pipelines.pretraining.rules import (
    TESTED,
    USERS,
    Arrays,
    best,
    hits,
    losses,
    model_of,
    next_states,
    objectives_of,
    train,
)

CYCLES, GROUPS, GROUP, LARGE = 7, 6, 5, 50
INTERVALS = {"class_name": "time_intervals", "config": {"values": True}}
HSTU = {"num_layers": 2, "num_heads": 2, "temperature": 0.2}
FITTING = {"next_item": "sasrec", "masked_item": "bert4rec", "permutation": "xlnet"}


def cycles(users: int, seed: int, shuffled: bool = False) -> Arrays:
    """Each item follows one other: the user goes around in one of the circles of three items.

    Before the target each of the three occurs twice, so that they say nothing without their order.
    """
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 3, (users, 1)) + np.arange(7)
    if shuffled:
        places[:, :6] = rng.permuted(places[:, :6], axis=1)
    return {"item": 2 + 3 * rng.integers(0, CYCLES, (users, 1)) + places % 3}


def groups(users: int, seed: int) -> Arrays:
    """Items of one group in any order."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, (users, 1))
    return {"item": 2 + GROUP * group + rng.integers(0, GROUP, (users, 8))}


def intervals(users: int, seed: int) -> Arrays:
    """After any three events, item 2 follows if the last two stand close, and else item 3.

    The first two always do: TiSASRec counts times in units of a user's shortest one.
    """
    rng = np.random.default_rng(seed)
    apart = rng.random(users) < 0.5
    events = *rng.integers(4, 9, (3, users)), 2 + apart
    gap = np.where(apart, 100_000, 10)
    ages = 20 + gap, 10 + gap, np.full(users, 10), np.zeros(users, int)
    return {"item": np.stack(events, axis=1), "age": 2 + np.stack(ages, axis=1)}


def categories(users: int, seed: int) -> Arrays:
    """Items of one category in any order; its rare ones only begin a history, and seldom.

    Of the ten items of a category the last three are rare.
    """
    rng = np.random.default_rng(seed)
    category = rng.integers(0, 4, (users, 1))
    place = rng.integers(0, 7, (users, 6))
    begins = rng.random(users) < 0.1
    place[begins, 0] = rng.integers(7, 10, begins.sum())
    return {"item": 2 + 10 * category + place, "category": 2 + np.tile(category, (1, 6))}


def sessions(users: int, seed: int, directed: bool) -> Arrays:
    """Sessions of three events each; with a direction the kinds of their items go 0, 1, 2, 0."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (users, 1)) + np.arange(4)
    if not directed:
        kind = rng.integers(0, 3, (users, 4))
    items = 2 + 5 * np.repeat(kind % 3, 3, axis=1) + rng.integers(0, 5, (users, 12))
    return {"item": items, "session": np.tile(2 + np.repeat(np.arange(4), 3), (users, 1))}


def large_groups(users: int, seed: int) -> Arrays:
    """Items of one group of fifty, so that users of one group share few of their eight."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, (users, 1))
    items = 2 + LARGE * group + rng.integers(0, LARGE, (users, 8))
    return {"item": items, "session": np.tile(2 + np.arange(8) // 2, (users, 1))}


def circle_of_categories(users: int, seed: int) -> Arrays:
    """The categories go around in a circle, each event has any item of its category.

    Before the last event each of the three occurs twice.
    """
    rng = np.random.default_rng(seed)
    category = (rng.integers(0, 3, (users, 1)) + np.arange(7)) % 3
    return {"item": 2 + 7 * category + rng.integers(0, 7, category.shape), "category": 2 + category}


def reactions(users: int, seed: int, to_item: bool) -> Arrays:
    """An action says if the item's number rose, or the next item is 1 or 5 on, as the action says.

    What the rule does not say is drawn, and so is the first action.
    """
    rng = np.random.default_rng(seed)
    item, action = rng.integers(0, 10, (users, 7)), rng.integers(0, 2, (users, 7))
    if to_item:
        action[:, 1:] = item[:, 1:] > item[:, :-1]
    else:
        steps = np.cumsum(1 + 4 * action[:, :-1], axis=1)
        item[:, 1:] = (item[:, :1] + steps) % 10
    return {"item": 2 + item, "action": 2 + action}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "objective",
    [
        "next_item",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("masked_item", "permutation")
        ),
    ],
)
def test_order_is_learned(objective: str) -> None:
    model = model_of(FITTING[objective], cycles(USERS, 1))
    train(model, objectives_of(model, cycles(USERS, 1), **{objective: {}}), cycles(USERS, 1))
    assert hits(model, cycles(TESTED, 2)) > 0.95


@pytest.mark.thorough
def test_without_the_order_the_circle_alone_is_learned() -> None:
    inputs, tested = cycles(USERS, 1, shuffled=True), cycles(TESTED, 2, shuffled=True)
    model = model_of("sasrec", inputs)
    train(model, objectives_of(model, inputs, next_item={}), inputs)
    assert hits(model, tested) < 0.5
    assert hits(model, tested, places=3) > 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("objective", FITTING)
def test_items_that_occur_together_are_found(objective: str) -> None:
    """The whole group stands first; which of it comes next is chance. Popularity finds a sixth."""
    inputs, tested = groups(USERS, 1), groups(TESTED, 2)
    model = model_of(FITTING[objective], inputs)
    train(model, objectives_of(model, inputs, **{objective: {}}), inputs)
    assert hits(model, tested, places=GROUP) > 0.97
    assert abs(hits(model, tested) - 1 / GROUP) < 0.1


@pytest.mark.parametrize(
    ("name", "options", "learns"),
    [
        pytest.param("sasrec", {"positions": INTERVALS}, True, id="tisasrec"),
        pytest.param("hstu", HSTU, True, id="hstu", marks=pytest.mark.thorough),
        pytest.param("sasrec", {}, False, id="sasrec", marks=pytest.mark.thorough),
    ],
)
def test_times_are_learned_by_a_model_that_sees_them(
    name: str, options: dict[str, Any], learns: bool
) -> None:
    inputs, tested = intervals(USERS, 1), intervals(TESTED, 2)
    model = model_of(name, inputs, **options)
    train(model, objectives_of(model, inputs, next_item={}), inputs, steps=200)
    assert hits(model, tested) > 0.95 if learns else hits(model, tested) < 0.65


@pytest.mark.thorough
@pytest.mark.parametrize("with_attributes", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_rare_items_stand_with_their_category_by_its_objective(with_attributes: bool) -> None:
    """The second table of a rare item, which never comes next, learns only from `attributes`."""
    inputs, tested = categories(USERS, 1), categories(TESTED, 2)
    model = model_of("sasrec", inputs, tied=False)
    named = {"next_item": {}} | ({"attributes": {"column": "category"}} if with_attributes else {})
    train(model, objectives_of(model, inputs, **named), inputs)
    order = best(model, tested, places=40) - 2
    rare = order[order % 10 >= 7].reshape(TESTED, 12)[:, :3]
    right = (rare // 10 == tested["category"][:, :1] - 2).mean()
    assert right > 0.9 if with_attributes else right < 0.6


@pytest.mark.thorough
@pytest.mark.parametrize("directed", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_direction_of_sessions_is_learned_where_there_is_one(directed: bool) -> None:
    inputs = sessions(USERS, 1, directed)
    model = model_of("bert4rec", inputs)
    objectives = objectives_of(model, inputs, session_order={})
    train(model, objectives, inputs)
    (loss,) = losses(model, objectives, sessions(TESTED, 2, directed))
    assert loss < 0.1 if directed else loss > 0.65  # chance has log 2 = 0.69


@pytest.mark.thorough
def test_replaced_items_are_told_from_those_of_the_group() -> None:
    inputs = groups(USERS, 1)
    model = model_of("bert4rec", inputs)
    objectives = objectives_of(model, inputs, replaced_item={"share": 0.2})
    train(model, objectives, inputs, steps=400)
    (loss,) = losses(model, objectives, groups(TESTED, 2))
    assert loss < 0.4  # their share alone has 0.49, and those of the own group cannot be told


@pytest.mark.thorough
def test_hidden_segments_are_told_from_those_of_other_users() -> None:
    inputs = groups(USERS, 1)
    model = model_of("bert4rec", inputs)
    objectives = objectives_of(model, inputs, segment={"share": 0.4})
    train(model, objectives, inputs)
    (loss,) = losses(model, objectives, groups(TESTED, 2))
    assert loss < 0.25  # chance has 0.69; a sixth of the others are of the same group


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("objective", "learns"),
    [("contrastive", True), pytest.param("session_order", False, marks=pytest.mark.thorough)],
)
def test_users_of_a_group_are_alike_by_views_alone(objective: str, learns: bool) -> None:
    """To the state of most users that of another user of the group is the nearest."""
    inputs, tested = large_groups(USERS, 1), large_groups(TESTED, 2)
    model = model_of("sasrec", inputs)
    train(model, objectives_of(model, inputs, **{objective: {}}), inputs)
    states, group = next_states(model, tested), (tested["item"][:, 0] - 2) // LARGE
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    nearest = (states @ states.T - 2 * np.eye(TESTED)).argmax(axis=1)
    share = (group[nearest] == group).mean()
    assert share > 0.95 if learns else share < 0.7


@pytest.mark.thorough
@pytest.mark.parametrize("hidden", [0.3, pytest.param(0.0, marks=pytest.mark.thorough)])
def test_order_of_categories_is_learned_from_hidden_events(hidden: float) -> None:
    """The states before the last event tell its category by the nearest mean."""
    inputs, tested = circle_of_categories(USERS, 1), circle_of_categories(TESTED, 2)
    model = model_of("bert4rec", inputs)
    of = objectives_of(model, inputs, attributes={"column": "category", "hidden": hidden})
    train(model, of, inputs)
    states, others = (next_states(model, {"item": x["item"][:, :6]}) for x in (inputs, tested))
    means = np.stack(
        [states[inputs["category"][:, 6] == label].mean(axis=0) for label in (2, 3, 4)]
    )
    found = 2 + np.square(others[:, None] - means).sum(axis=-1).argmin(axis=1)
    right = (found == tested["category"][:, 6]).mean()
    assert right > 0.95 if hidden else right < 0.85


@pytest.mark.thorough
@pytest.mark.parametrize("to_item", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_actions_follow_items_and_items_follow_actions(to_item: bool) -> None:
    """Each objective learns the rule of its own; without a rule it has the loss of chance."""
    inputs, tested = reactions(USERS, 1, to_item), reactions(TESTED, 2, to_item)
    model = model_of("sasrec", inputs, action="action")
    objectives = objectives_of(model, inputs, next_item={}, actions={})
    train(model, objectives, inputs, steps=250)
    of_items, of_actions = losses(model, objectives, tested)
    if to_item:  # the first of seven actions has log 2; by its item alone an action has 0.49
        assert of_actions < 0.25
        assert of_items > 0.95 * np.log(10)
    else:  # without the action an item has log 2
        assert of_items < 0.4
        assert of_actions > 0.95 * np.log(2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("sasrec", {"next_item": {}, "attributes": {"column": "category", "weight": 0.3}}),
        ("sasrec", {"next_item": {}, "contrastive": {"weight": 0.1}}),
        ("bert4rec", {"masked_item": {}, "session_order": {"weight": 0.5}}),
        ("bert4rec", {"masked_item": {}, "segment": {"weight": 0.5}}),
        ("bert4rec", {"masked_item": {}, "replaced_item": {"share": 0.2}}),
        ("bert4rec", {"masked_item": {}, "attributes": {"column": "category", "hidden": 0.2}}),
    ],
)
def test_two_objectives_are_learned_together(name: str, named: dict[str, Any]) -> None:
    inputs, tested = categories(USERS, 1), categories(TESTED, 2)
    for each in (inputs, tested):
        each["session"] = np.tile([2, 2, 3, 3, 4, 4], (len(each["item"]), 1))
    for each in (inputs, tested) if "session_order" in named else ():
        each["item"] = np.sort(each["item"], axis=1)
    model = model_of(name, inputs)
    objectives = objectives_of(model, inputs, **named)
    before = losses(model, objectives, tested)
    train(model, objectives, inputs)
    after = losses(model, objectives, tested)
    assert after[0] < 0.75 * before[0]
    assert after[1] < 0.9 * before[1]
