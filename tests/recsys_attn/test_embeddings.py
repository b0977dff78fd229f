"""Field vectors and histories, against a lookup one feature and one row at a time."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest

from recsys_attn.embeddings import CANDIDATE_MASK, FeatureEmbedding, example_inputs
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.support.arrays import numpy

B, T, S, V, E = 5, 3, 7, 2, 4
SCHEMA = Schema(
    (
        Categorical("user", "context", size=11),
        Numeric("age", "context", encoding="linear"),
        Categorical("topics", "context", multivalued=True, max_length=V, size=5),
        Categorical("item", size=13),
        Categorical("brand", size=3),
        Numeric("price", encoding="linear"),
        Categorical("tags", multivalued=True, max_length=V, size=7),
        Sequence("items_seen", shares="item", history="seen", max_length=S, size=13),
        Sequence("how", history="seen", max_length=S, size=5),
    ),
    (Task("click"),),
)
SHAPES = {
    "user": (B,),
    "topics": (B, V),
    "item": (B, T),
    "brand": (B, T),
    "tags": (B, T, V),
    "items_seen": (B, S),
    "how": (B, S),
}


def random_inputs(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = {
        name: rng.integers(0, SCHEMA[name].size, shape).astype("int32")
        for name, shape in SHAPES.items()
    }
    inputs["age"] = rng.normal(size=B).astype("float32")
    inputs["price"] = rng.normal(size=(B, T)).astype("float32")
    inputs["price"][0, 1] = inputs["age"][2] = np.nan
    return inputs


def table_of(layer: FeatureEmbedding, name: str) -> np.ndarray:
    """The rows of a feature's own part of the table, its padding row zeroed."""
    offset = 0
    for feature in layer.schema.features:
        if isinstance(feature, Numeric) or layer.schema.table_owner(feature.name) != feature.name:
            continue
        if feature.name == layer.schema.table_owner(name):
            weights = keras.ops.convert_to_numpy(layer.weights_by_name[f"table_{E}"])
            rows = weights[offset : offset + feature.size].copy()
            rows[0] = 0
            return rows
        offset += feature.size
    raise KeyError(name)


@pytest.fixture
def layer() -> FeatureEmbedding:
    layer = FeatureEmbedding(SCHEMA, width=E)
    layer.build()
    layer.weights_by_name = {weight.name: weight for weight in layer.weights}
    return layer


def test_single_ids_are_rows_of_their_part_of_the_table(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    fields = layer(inputs)
    candidate = numpy(fields["candidate"][0])
    np.testing.assert_array_equal(candidate[:, :, 0], table_of(layer, "item")[inputs["item"]])
    np.testing.assert_array_equal(candidate[:, :, 1], table_of(layer, "brand")[inputs["brand"]])
    context = numpy(fields["context"][0])
    np.testing.assert_array_equal(context[:, 0], table_of(layer, "user")[inputs["user"]])


def test_bags_are_the_mean_of_what_is_present(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    fields = layer(inputs)
    rows = table_of(layer, "tags")
    for b, t in np.ndindex(B, T):
        ids = [i for i in inputs["tags"][b, t] if i != 0]
        expected = np.mean([rows[i] for i in ids], axis=0) if ids else np.zeros(E)
        np.testing.assert_allclose(
            numpy(fields["candidate"][0])[b, t, 2], expected, rtol=1e-5, atol=1e-7
        )
        assert bool(numpy(fields["candidate_present"][0])[b, t, 2]) == bool(ids)


def test_numbers_are_value_times_vector_and_zeros_where_missing(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    fields = layer(inputs)
    vector = numpy(layer.weights_by_name[f"candidate_vectors_{E}"])[0]
    expected = np.nan_to_num(inputs["price"])[..., None] * vector
    np.testing.assert_allclose(numpy(fields["candidate"][0])[:, :, 3], expected, rtol=1e-6)
    present = numpy(fields["candidate_present"][0])[:, :, 3]
    np.testing.assert_array_equal(present, ~np.isnan(inputs["price"]))


def test_missing_values_are_zeros_and_not_present(layer: FeatureEmbedding) -> None:
    fields = layer(example_inputs(SCHEMA, B, T) | {"price": np.full((B, T), np.nan, "float32")})
    np.testing.assert_array_equal(numpy(fields["candidate"][0]), 0)
    assert not numpy(fields["candidate_present"][0]).any()
    assert not numpy(fields["histories"]["seen"]["event_mask"]).any()


def test_a_past_item_and_a_candidate_item_are_the_same_vector(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    history = layer(inputs)["histories"]["seen"]
    rows = table_of(layer, "item")
    np.testing.assert_array_equal(numpy(history["events"])[..., :E], rows[inputs["items_seen"]])
    np.testing.assert_array_equal(numpy(history["query"])[..., :E], rows[inputs["item"]])


def test_a_sequence_without_a_partner_has_zeros_in_the_query(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    history = layer(inputs)["histories"]["seen"]
    np.testing.assert_array_equal(
        numpy(history["events"])[..., E:], table_of(layer, "how")[inputs["how"]]
    )
    assert numpy(history["query"]).shape == (B, T, 2 * E)
    np.testing.assert_array_equal(numpy(history["query"])[..., E:], 0)


def test_an_event_counts_when_any_aligned_sequence_has_it(layer: FeatureEmbedding) -> None:
    inputs = random_inputs()
    mask = numpy(layer(inputs)["histories"]["seen"]["event_mask"])
    np.testing.assert_array_equal(mask, (inputs["items_seen"] != 0) | (inputs["how"] != 0))


def test_a_history_that_shares_nothing_has_a_query_of_zeros() -> None:
    schema = Schema(
        (Categorical("item", size=5), Sequence("how", max_length=S, size=3)), (Task("c"),)
    )
    history = FeatureEmbedding(schema, width=E)(example_inputs(schema, B, T))["histories"][
        "history"
    ]
    assert numpy(history["query"]).shape == (B, 1, E)


def test_a_history_of_context_ids_has_one_query_a_request() -> None:
    schema = Schema(
        (
            Categorical("place", "context", size=5),
            Categorical("item", size=5),
            Sequence("places", shares="place", max_length=S, size=5),
        ),
        (Task("c"),),
    )
    inputs = example_inputs(schema, B, T) | {"place": np.arange(B).astype("int32")}
    layer = FeatureEmbedding(schema, width=E)
    fields = layer(inputs)
    query = numpy(fields["histories"]["history"]["query"])
    np.testing.assert_array_equal(query[:, 0], numpy(fields["context"][0])[:, 0])
    assert query.shape == (B, 1, E)


def test_each_width_has_its_table() -> None:
    schema = Schema(
        (
            Categorical("item", size=5, width=3),
            Categorical("brand", size=7),
            Categorical("user", "context", size=11, width=3),
            Numeric("price", width=2, encoding="linear"),
        ),
        (Task("click"),),
    )
    layer = FeatureEmbedding(schema, width=E)
    fields = layer(example_inputs(schema, B, T))
    assert [tuple(block.shape) for block in fields["candidate"]] == [
        (B, T, 1, 2),
        (B, T, 1, 3),
        (B, T, 1, E),
    ]
    assert [tuple(block.shape) for block in fields["context"]] == [(B, 1, 3)]
    shapes = sorted(tuple(weight.shape) for weight in layer.weights)
    assert shapes == [(1, 2), (7, E), (5 + 11, 3)]


def test_the_candidate_mask_is_handed_on(layer: FeatureEmbedding) -> None:
    mask = np.random.default_rng(1).random((B, T)) < 0.5
    np.testing.assert_array_equal(
        numpy(layer(random_inputs() | {CANDIDATE_MASK: mask})[CANDIDATE_MASK]), mask
    )


def test_the_query_has_a_mask_that_fits_it() -> None:
    """One query a request, where no candidate feature is in it, counts if any candidate does."""
    mask = np.array([[True, False, False]] * (B - 1) + [[False] * T])
    schema = Schema(
        (
            Categorical("place", "context", size=5),
            Categorical("item", size=5),
            Sequence("places", shares="place", history="been", max_length=S),
            Sequence("how", history="done", max_length=S, size=3),
            Sequence("items", shares="item", history="seen", max_length=S),
        ),
        (Task("c"),),
    )
    layer = FeatureEmbedding(schema, width=E)
    histories = layer(example_inputs(schema, B, T) | {CANDIDATE_MASK: mask})["histories"]
    for name, expected in (("been", mask[:, :1]), ("done", mask[:, :1]), ("seen", mask)):
        np.testing.assert_array_equal(numpy(histories[name]["query_mask"]), expected)
        assert numpy(histories[name]["query"]).shape[:2] == expected.shape
    assert layer(example_inputs(schema, B, T))["histories"]["been"]["query_mask"] is None


def test_a_shared_table_has_its_owners_size_whatever_the_order() -> None:
    owner = Categorical("item", size=13)
    for sharing in (Sequence("seen", shares="item"), Sequence("seen", shares="item", size=13)):
        for features in ((owner, sharing), (sharing, owner)):
            layer = FeatureEmbedding(Schema(features, (Task("c"),)), width=E)
            layer.build()
            assert [tuple(weight.shape) for weight in layer.weights] == [(13, E)]


def test_numbers_are_not_rounded_before_the_product() -> None:
    schema = Schema(
        (Numeric("price", encoding="linear"), Numeric("age", "context", encoding="linear")),
        (Task("c"),),
    )
    layer = FeatureEmbedding(schema, width=31, dtype="mixed_bfloat16")
    inputs = {
        "price": np.array([[1234.567, np.nan]], "float32"),
        "age": np.array([1234.567], "float32"),
    }
    fields = layer(inputs)
    vectors = {weight.name: numpy(weight) for weight in layer.weights}
    found_by_side = {
        "candidate": fields["candidate"][0][0, 0, 0],
        "context": fields["context"][0][0, 0],
    }
    for side, found in found_by_side.items():
        assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
        exact = np.float32(1234.567) * vectors[f"{side}_vectors_31"][0]
        expected = keras.ops.cast(keras.ops.convert_to_tensor(exact), "bfloat16")
        np.testing.assert_array_equal(
            numpy(keras.ops.cast(found, "float32")), numpy(keras.ops.cast(expected, "float32"))
        )
    assert not numpy(fields["candidate_present"][0])[0, 1, 0]


def test_id_outside_its_table_is_unknown(
    layer: FeatureEmbedding,
) -> None:
    inside, outside = random_inputs(), random_inputs()
    for name, wrong in (("item", 13), ("brand", -1), ("tags", 10**6), ("items_seen", 99)):
        inside[name][0], outside[name][0] = 1, wrong
    expected, found = layer(inside), layer(outside)
    for key in ("candidate", "candidate_present"):
        np.testing.assert_array_equal(numpy(found[key][0]), numpy(expected[key][0]))
    np.testing.assert_array_equal(
        numpy(found["histories"]["seen"]["events"]), numpy(expected["histories"]["seen"]["events"])
    )


def test_known_rows_start_different_and_unknown_ones_at_zero(layer: FeatureEmbedding) -> None:
    for name in ("user", "topics", "item", "brand", "tags", "how"):
        rows = table_of(layer, name)
        np.testing.assert_array_equal(rows[:2], 0)
        assert len(np.unique(rows[2:], axis=0)) == len(rows) - 2


def test_vectors_start_small() -> None:
    numbers = tuple(Numeric(f"number_{i}", encoding="linear") for i in range(101))
    schema = Schema((Categorical("item", size=1009), *numbers), (Task("click"),))
    layer = FeatureEmbedding(schema, width=31)
    layer.build()
    table, vectors = map(numpy, layer.weights)
    for drawn in (table[2:], vectors):
        np.testing.assert_allclose(drawn.std(), 0.01, rtol=0.05)


def test_narrow_rows_are_projected() -> None:
    """The fields are those of a plain layer with the products in its table."""
    widths = {"user": 3, "topics": 2, "item": 3, "tags": 3, "how": 3}
    schema = Schema(
        tuple(
            replace(f, table_width=widths[f.name]) if f.name in widths else f
            for f in SCHEMA.features
        ),
        SCHEMA.tasks,
    )
    layer, plain = FeatureEmbedding(schema, width=E), FeatureEmbedding(SCHEMA, width=E)
    inputs = random_inputs()
    layer(inputs), plain(inputs)
    own = {weight.name: weight for weight in layer.weights}
    rng = np.random.default_rng(5)
    for weight in own.values():
        weight.assign(rng.normal(size=weight.shape))
    found = {name: numpy(weight) for name, weight in own.items()}
    assert {name: value.shape for name, value in found.items()} == {
        "table_4": (3, E),
        "table_2_to_4": (5, 2),
        "projection_2_to_4": (1, 2, E),
        "table_3_to_4": (11 + 13 + 7 + 5, 3),
        "projection_3_to_4": (4, 3, E),
        "candidate_vectors_4": (1, E),
        "context_vectors_4": (1, E),
    }
    parts = np.split(found["table_3_to_4"], np.cumsum([11, 13, 7]))
    user, item, tags, how = (
        rows @ matrix for rows, matrix in zip(parts, found["projection_3_to_4"], strict=True)
    )
    topics = found["table_2_to_4"] @ found["projection_2_to_4"][0]
    for weight in plain.weights:
        rows = [user, topics, item, found["table_4"], tags, how]
        weight.assign(np.concatenate(rows) if weight.name == "table_4" else found[weight.name])
    expected, fields = plain(inputs), layer(inputs)
    order = {"candidate": [1, 3, 0, 2], "context": [2, 1, 0]}  # of the tables: width 4, 2, 3
    for side, places in order.items():
        values, present = (
            np.concatenate([numpy(block) for block in fields[key]], axis)
            for key, axis in ((side, -2), (f"{side}_present", -1))
        )
        np.testing.assert_allclose(
            values, numpy(expected[side][0])[..., places, :], rtol=1e-5, atol=1e-6
        )
        np.testing.assert_array_equal(present, numpy(expected[f"{side}_present"][0])[..., places])
    for key in ("query", "events"):
        np.testing.assert_allclose(
            numpy(fields["histories"]["seen"][key]),
            numpy(expected["histories"]["seen"][key]),
            rtol=1e-5,
            atol=1e-6,
        )


def test_projected_rows_start_as_small_as_plain_ones() -> None:
    schema = Schema((Categorical("item", size=1009, table_width=17),), (Task("click"),))
    layer = FeatureEmbedding(schema, width=31)
    layer.build()
    table, projection = map(numpy, layer.weights)
    np.testing.assert_allclose((table[2:] @ projection[0]).std(), 0.01, rtol=0.1)
    np.testing.assert_array_equal(table[:2], 0)


def test_penalty_is_that_of_the_narrow_table() -> None:
    schema = Schema((Categorical("item", size=7, table_width=3),), (Task("click"),))
    layer = FeatureEmbedding(schema, width=E, embeddings_regularizer="l2")
    layer.build()
    (penalty,) = layer.losses
    expected = 0.01 * np.sum(numpy(layer.weights[0]) ** 2)
    np.testing.assert_allclose(numpy(penalty), expected, rtol=1e-5)


def test_invalid_request_is_an_error_in_json() -> None:
    wide = Schema((Categorical("item", size=7, table_width=4),), (Task("click"),))
    with pytest.raises(ValueError, match="'item': `table_width` must be less than the embedding"):
        FeatureEmbedding(wide, width=4)
    unfitted = Schema((Categorical("item"),), (Task("click"),))
    with pytest.raises(ValueError, match="Feature 'item' has no `size`"):
        FeatureEmbedding(unfitted)
    with pytest.raises(ValueError, match="`width` must be a positive integer"):
        FeatureEmbedding(SCHEMA, width=0)
    inputs = random_inputs()
    del inputs["brand"]
    with pytest.raises(ValueError, match=r"every feature of the schema. Missing: \['brand'\]"):
        FeatureEmbedding(SCHEMA, width=E)(inputs)
