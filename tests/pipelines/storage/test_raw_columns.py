"""Columns of raw rows that several features read."""

import dataclasses

import pytest

from pipelines.storage.raw_columns import raw_columns
from recsys_attn.id_transforms import Age, Hash, Quantile
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence
from tests.support import shop


def columns_of(*features):
    return raw_columns(Schema(features, ())).features


def test_columns_of_other_schemas_are_their_features():
    assert raw_columns(shop.SCHEMA) is shop.SCHEMA


def test_raw_columns_are_columns_of_themselves():
    schema = Schema((Numeric("price_number", column="price"), Numeric("price")), ())
    assert raw_columns(raw_columns(schema)) == raw_columns(schema)


def test_a_column_with_ids_is_int64_for_numbers_too():
    number = Numeric("hour_number", column="hour")
    bucket = Categorical("bucket", dtype="float32", transform=Quantile(), column="hour")
    ids = Categorical("hour", dtype="int64")
    for features in ((number, bucket, ids), (ids, number), (bucket, ids)):
        (column,) = columns_of(*features)
        assert (column.name, column.dtype, column.kind) == ("hour", "int64", "categorical")
    (column,) = columns_of(number, bucket)
    assert (column.name, column.dtype) == ("hour", "float32")


def test_columns_of_sequences_share_the_column_of_items():
    items = Categorical("item_hash", dtype="int64", transform=Hash(3), column="item")
    seen = Sequence("seen_hash", shares="item_hash", dtype="int64", column="seen")
    plain, events = columns_of(Categorical("item", dtype="int64"), items, seen)
    assert (plain.name, events.name, events.shares) == ("item", "seen", "item")


def test_ages_in_buckets_stay_in_their_history():
    ages = Sequence("age", dtype="int64", transform=Age(), column="ages")
    buckets = Sequence("bucket", dtype="float32", transform=Quantile(), column="ages")
    (column,) = columns_of(ages, buckets)
    assert (column.name, column.dtype, column.history) == ("ages", "int64", "history")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"side": "context"}, r"must have one `side`. Received: \['candidate', 'context'\]"),
        ({"dtype": "string"}, "must have one `dtype`, or int64 and float32"),
        ({"multivalued": True}, r"one value or a list. Received: \['one value', 'a list'\]"),
    ],
)
def test_features_of_one_column_agree(changes, message):
    feature = Categorical("hour", dtype="int64")
    other = dataclasses.replace(feature, name="other", column="hour", **changes)
    with pytest.raises(ValueError, match=rf"\['hour', 'other'\] read the column 'hour'.*{message}"):
        columns_of(feature, other)


def test_sequences_of_one_column_have_one_history():
    first, other = Sequence("seen"), Sequence("last", column="seen", history="last")
    with pytest.raises(ValueError, match=r"must have one `history`. Received: \['history', 'last'"):
        columns_of(first, other)
