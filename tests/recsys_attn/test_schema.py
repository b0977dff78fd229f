"""The schema refuses what does not fit together, and survives JSON."""

from __future__ import annotations

import json

import pytest

from recsys_attn.id_transforms import Age, Hash, Quantile, Vocabulary
from recsys_attn.loss_options import CrossEntropy, Focal
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task, is_listed
from tests.support.refusals import refusals

FEATURES = (
    Categorical("item", dtype="int64", transform=Vocabulary(min_count=3, max_size=11)),
    Categorical("tags", multivalued=True, max_length=5, transform=Hash(13)),
    Categorical("age", "context", dtype="float32", transform=Quantile(7)),
    Numeric("price", transform=("log1p", "standardise"), width=3, boundaries=(-0.5, 2.0)),
    Sequence("clicked", shares="item", dtype="int64", history="clicks", max_length=17),
    Sequence("actions", history="clicks", max_length=17),
)
TASKS = (Task("click"), Task("buy", label="bought", weight=0.5, mask="clicked_once"))


def test_survives_json() -> None:
    schema = Schema(FEATURES, TASKS)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_a_column_is_written_where_it_is_not_the_name() -> None:
    schema = Schema((Numeric("hour"), Numeric("hour_number", column="hour")), (Task("click"),))
    plain, other = schema.to_dict()["features"]
    assert "column" not in plain
    assert other["column"] == "hour"
    assert Schema.from_dict(schema.to_dict()) == schema
    assert [feature.column_name for feature in schema.features] == ["hour", "hour"]


def test_losses_survive_json_as_they_were_given() -> None:
    losses = ("softmax", "focal", Focal(gamma=0.7), CrossEntropy(smoothing=0.1))
    tasks = tuple(Task(f"task_{n}", loss=loss) for n, loss in enumerate(losses))
    schema = Schema(FEATURES, tasks)
    plain = json.loads(json.dumps(schema.to_dict()))
    assert [task["loss"] for task in plain["tasks"]][:2] == ["softmax", "focal"]
    assert plain["tasks"][2]["loss"] == {"gamma": 0.7, "name": "focal"}
    assert Schema.from_dict(plain) == schema
    old = {"name": "click", "label": None, "weight": 1.0, "mask": None, "kind": "binary"}
    assert Schema.from_dict({**plain, "tasks": [old]}).tasks == (Task("click"),)


def test_sequences_share_the_table_and_the_size_of_their_owner() -> None:
    schema = Schema(FEATURES, TASKS).with_sizes({"item": 19, "tags": 5, "age": 9, "actions": 4})
    assert schema.table_owner("clicked") == "item"
    assert schema.table_owner("actions") == "actions"
    assert [getattr(f, "size", None) for f in schema.features] == [19, 5, 9, None, 19, 4]


def test_a_sequence_that_shares_may_repeat_what_its_owner_has() -> None:
    owner = Categorical("tags", transform=Hash(13), width=3, size=15)
    for sequence in (
        Sequence("h", shares="tags"),
        Sequence("h", shares="tags", transform=Hash(13), width=3, size=15),
    ):
        Schema((sequence, owner), TASKS)


def test_histories_hold_aligned_sequences() -> None:
    histories = Schema(FEATURES, TASKS).histories
    assert {name: [s.name for s in group] for name, group in histories.items()} == {
        "clicks": ["clicked", "actions"]
    }


def test_label_column_is_the_name_unless_given() -> None:
    assert [task.label_column for task in TASKS] == ["click", "bought"]


def test_lists_are_sequences_and_bags() -> None:
    assert [f.name for f in FEATURES if is_listed(f)] == ["tags", "clicked", "actions"]


def test_unknown_name_is_said() -> None:
    with pytest.raises(KeyError, match="No feature is named 'itme'"):
        Schema(FEATURES, TASKS)["itme"]


test_inconsistent_schemas_are_refused = refusals(
    (lambda: Schema((), TASKS), "`features` must name at least one"),
    (lambda: Schema((*FEATURES, Numeric("item")), TASKS), r"Received twice: \['item'\]"),
    (lambda: Schema(FEATURES, (*TASKS, Task("click"))), r"Received twice: \['click'\]"),
    (
        lambda: Schema((*FEATURES, Sequence("h", shares="price")), TASKS),
        "`shares` must name a categorical feature, one of .*'item'.*Received: shares='price'",
    ),
    (
        lambda: Schema((*FEATURES, Sequence("h", shares="item")), TASKS),
        "must have its dtype 'int64'. Received: dtype='string'",
    ),
    (
        lambda: Schema((*FEATURES, Sequence("h", history="clicks", max_length=2)), TASKS),
        "must have the same `max_length`. Received for history 'clicks'",
    ),
    (
        lambda: Schema((*FEATURES, Sequence("h", shares="tags", transform=Hash(7))), TASKS),
        r"whose `transform` is Hash\(buckets=13.*Received: transform=Hash\(buckets=7",
    ),
    (
        lambda: Schema((*FEATURES, Sequence("h", shares="tags", width=3)), TASKS),
        "whose `width` is None. Received: width=3. Remove the sequence's `width`",
    ),
    (
        lambda: Schema((Categorical("item", size=5), Sequence("h", shares="item", size=7)), TASKS),
        "whose `size` is 5. Received: size=7",
    ),
    (lambda: Categorical("a", "user"), "Feature 'a': unknown `side`. Valid names: .*'user'"),
    (lambda: Numeric("a", "candidates"), "unknown `side`.*Did you mean 'candidate'"),
    (lambda: Categorical("a", dtype="int32"), "unknown `dtype`.*Did you mean 'int64'"),
    (lambda: Sequence("a", dtype="str"), "unknown `dtype`.*Received: 'str'"),
    (lambda: Numeric("a", dtype="int64"), r"unknown `dtype`. Valid names: \['float32'\]"),
    (lambda: Numeric("a", transform="log1p"), r"must be a tuple of steps.*\('log1p',\)"),
    (lambda: Numeric("a", transform=("log",)), "unknown step.*Did you mean 'log1p'"),
    (
        lambda: Categorical("a", transform="hash"),
        "an Age or an OwnTransform",
    ),
    (lambda: Categorical("candidate_mask"), "`name` must not be 'candidate_mask'"),
    (lambda: Categorical("a", size=0), "Feature 'a': `size` must be a positive integer"),
    (lambda: Numeric("a", width="4"), "Feature 'a': `width` must be a positive integer"),
    (lambda: Task("a", weight=0), "Task 'a': `weight` must be a finite number above 0"),
    (lambda: Task("a", weight="x"), "Task 'a': `weight` must be.*Received: weight='x'"),
    (lambda: Task("a", weight=float("inf")), "Received: weight=inf"),
    (lambda: Task("a", weight=float("nan")), "Received: weight=nan"),
    (lambda: Vocabulary(min_count=0), "`min_count` must be a positive integer"),
    (lambda: Vocabulary(max_size=0), "`max_size` must be a positive integer"),
    (lambda: Hash(0), "`buckets` must be a positive integer"),
    (lambda: Quantile(1), "`buckets` must be at least 2"),
    (lambda: Categorical("a", width=0), "`width` must be a positive integer"),
    (lambda: Categorical("a", table_width=0), "`table_width` must be a positive integer"),
    (
        lambda: Sequence("a", dtype="int64", transform=Age(), table_width=2),
        "times, which have no table. Received: table_width=2",
    ),
    (
        lambda: Schema((*FEATURES, Sequence("h", shares="tags", table_width=2)), TASKS),
        "whose `table_width` is None. Received: table_width=2",
    ),
    (lambda: Sequence("a", max_length=0), "`max_length` must be a positive integer"),
    (lambda: Categorical("a", dtype="float32"), "Quantile and Age are for dtype 'float32'"),
    (lambda: Categorical("a", transform=Quantile(3)), "Quantile and Age are for dtype 'float32'"),
)
