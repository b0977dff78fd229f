"""Which rows a step touches, and that it reads no others."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import LazyAdam, RowOptimizer, Split
from tests.support.arrays import assert_close
from tests.support.optimizers import (
    CANCELLED,
    OPTIMIZERS,
    ROWS,
    SPARSE,
    UNTOUCHED,
    batches,
    data,
    fit,
    gradient,
    model,
    needs_lookups,
    numpy,
    table,
    train,
    whole_tables,
)

MAKERS = pytest.mark.parametrize("make", [made for made, _ in OPTIMIZERS.values()])
tensorflow_only = pytest.mark.skipif(not SPARSE, reason="other backends have no sparse gradients")


def state(optimizer: RowOptimizer, variable: keras.Variable) -> list[np.ndarray]:
    """All that has a row for each row of the table."""
    found = [numpy(v) for v in (variable, *optimizer.variables) if v.shape[:1] == (ROWS,)]
    return [array.copy() for array in found]


@MAKERS
@pytest.mark.parametrize("l2", [None, pytest.param(0.5, marks=needs_lookups)])
def test_a_row_without_gradient_stays_to_the_bit(make: type[RowOptimizer], l2: Any) -> None:
    optimizer, variable = make(0.1, weight_decay=0.3, l2=l2), table()
    optimizer.build([variable])
    for ids, values in batches():
        before = state(optimizer, variable)
        optimizer.apply([gradient(ids, values)], [variable])
        after = state(optimizer, variable)
        touched = sorted(set(ids.tolist()) - {CANCELLED})
        others = [i for i in range(ROWS) if i not in touched]
        assert {UNTOUCHED, CANCELLED} <= set(others)
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(new[others], old[others])
        assert np.all(np.any(after[0][touched] != before[0][touched], axis=1))


@needs_lookups
def test_lookups_are_counted_by_row() -> None:
    optimizer, variable = LazyAdam(0.1, l2=0.5), table()
    train(optimizer, variable, batches())
    wanted = np.zeros(ROWS)
    for ids, _ in batches():
        np.add.at(wanted, ids[ids != CANCELLED], 1)
    (found,) = [v for v in optimizer.variables if v.path.endswith("lookups")]
    np.testing.assert_array_equal(numpy(found)[:, 0], wanted)


@pytest.mark.parametrize(
    ("make", "numbers"),
    [(made, n) for (made, _), n in zip(OPTIMIZERS.values(), (10, 5, 1), strict=True)],
)
def test_numbers_kept_for_each_row(make: type[RowOptimizer], numbers: int) -> None:
    optimizer = make(0.1)
    optimizer.build([table()])
    assert sum(np.prod(v.shape) for v in optimizer.variables if len(v.shape)) == numbers * ROWS


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("table_5", True),
        ("model/feature_embedding/table_16", True),
        ("model/feature_embedding/table_8_to_16", True),
        ("model/feature_embedding/projection_8_to_16", False),
        ("embedding/embeddings", True),
        ("dense/kernel", False),
        ("tower/table_16/bias", False),
        ("relative_buckets/table", False),
    ],
)
def test_tables_are_known_by_their_paths(name: str, is_one: bool) -> None:
    variable = table()
    variable._path = name
    assert LazyAdam(0.1).is_table(variable) == is_one


def test_tables_of_other_names() -> None:
    optimizer = LazyAdam(0.1, tables=".*kernel")
    assert optimizer.is_table(table("kernel"))
    assert not optimizer.is_table(table("table_5"))


@tensorflow_only
@MAKERS
def test_every_run_gives_the_same_bits(make: type[RowOptimizer]) -> None:
    rng = np.random.default_rng(5)
    ids = rng.zipf(1.3, 30_000).clip(max=ROWS - 1).astype("int32")
    steps = [(ids, rng.normal(size=(len(ids), 5)).astype("float32")) for _ in range(3)]
    first = train(make(0.1, global_clipnorm=1.0), table(), steps)
    for _ in range(5):
        np.testing.assert_array_equal(train(make(0.1, global_clipnorm=1.0), table(), steps), first)


@tensorflow_only
def test_a_compiled_step_takes_any_number_of_lookups() -> None:
    import tensorflow as tf

    optimizer, variable = LazyAdam(0.1, weight_decay=0.1, l2=0.1), table()
    optimizer.build([variable])

    @tf.function(
        input_signature=[tf.TensorSpec([None], "int32"), tf.TensorSpec([None, 5], "float32")]
    )
    def step(ids: Any, values: Any) -> None:
        optimizer.apply([tf.IndexedSlices(values, ids, (ROWS, 5))], [variable])

    steps = [(ids[:n], values[:n]) for n, (ids, values) in enumerate(batches())]
    for ids, values in steps:
        step(ids, values)
    eager = train(LazyAdam(0.1, weight_decay=0.1, l2=0.1), table(), steps)
    np.testing.assert_allclose(numpy(variable), eager, rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
@tensorflow_only
def test_a_step_in_xla_gives_the_same() -> None:
    weights = []
    for compiled in (False, True):
        trained = model()
        rows = LazyAdam(0.1, weight_decay=0.1, l2=0.1)
        trained.compile(Split(rows, "sgd", global_clipnorm=0.1), "mse", jit_compile=compiled)
        weights.append(fit(trained))
    for uncompiled, compiled in zip(*weights, strict=True):
        assert_close(compiled, uncompiled)


@pytest.mark.thorough
@tensorflow_only
@pytest.mark.parametrize(
    "make",
    [
        *(made for made, _ in OPTIMIZERS.values()),
        lambda rate: LazyAdam(rate, weight_decay=0.1, l2=0.1, clipnorm=1.0),
        lambda rate: Split(LazyAdam(rate), "adam", global_clipnorm=1.0),
    ],
)
def test_no_step_reads_or_writes_a_whole_table(make: Any) -> None:
    """The whole step of a model: once to read a table of 10 million rows is to copy it."""
    import tensorflow as tf

    trained = model()
    optimizer = make(0.1)
    variables = trained.trainable_variables
    optimizer.build(variables)
    inputs, labels = data()

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(trained(inputs)["click"] - labels["click"]))
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)

    graph = step.get_concrete_function().graph
    assert whole_tables(graph) == []
    assert any(o.type == "ResourceScatterUpdate" for o in graph.get_operations())
