"""Gradients by lookup and as large as the variable say the same."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.backend import sparse_gradients
from tests.support.optimizers import ROWS, SPARSE, batches, gradient, numpy, table
from tests.support.references import optimizers as reference

IDS, VALUES = batches()[0]
tensorflow_only = pytest.mark.skipif(not SPARSE, reason="other backends have no sparse gradients")


@tensorflow_only
def test_rows_are_the_sums_of_their_lookups() -> None:
    rows = sparse_gradients.rows_of(gradient(IDS, VALUES))
    assert rows is not None
    ids = numpy(rows.ids)
    first = np.sort(np.unique(IDS, return_index=True)[1])
    np.testing.assert_array_equal(ids, IDS[first])
    np.testing.assert_array_equal(numpy(rows.lookups), [np.sum(i == IDS) for i in ids])
    totals = reference.summed(IDS, VALUES)
    wanted = [totals.get(i, np.zeros(5)) for i in ids.tolist()]
    np.testing.assert_allclose(numpy(rows.values), wanted, rtol=1e-5, atol=1e-6)


@tensorflow_only
def test_rows_may_have_more_axes_or_none() -> None:
    for shape in ((), (2, 3)):
        values = np.random.default_rng(0).normal(size=(len(IDS), *shape)).astype("float32")
        rows = sparse_gradients.rows_of(gradient(IDS, values))
        assert rows is not None
        wanted = np.zeros((ROWS, *shape))
        np.add.at(wanted, IDS, values)
        np.testing.assert_allclose(
            numpy(rows.values), wanted[numpy(rows.ids)], rtol=1e-5, atol=1e-6
        )


@tensorflow_only
def test_no_lookup_gives_no_row() -> None:
    rows = sparse_gradients.rows_of(gradient(IDS[:0], VALUES[:0]))
    assert rows is not None
    assert [tuple(part.shape) for part in rows] == [(0,), (0, 5), (0,)]


def test_a_dense_gradient_tells_no_rows() -> None:
    dense = gradient(IDS, VALUES, sparse=False)
    assert not sparse_gradients.is_sparse(dense)
    assert sparse_gradients.rows_of(dense) is None
    assert sparse_gradients.dense(dense, ROWS) is dense
    assert sparse_gradients.values_of(dense) is dense


@tensorflow_only
def test_a_sparse_gradient_is_read_as_a_whole_or_by_lookup() -> None:
    sparse = gradient(IDS, VALUES)
    assert sparse_gradients.is_sparse(sparse)
    wanted = numpy(gradient(IDS, VALUES, sparse=False))
    np.testing.assert_allclose(
        numpy(sparse_gradients.dense(sparse, ROWS)), wanted, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(numpy(sparse_gradients.values_of(sparse)), VALUES)


@tensorflow_only
@pytest.mark.parametrize("compiled", [False, True])
def test_a_graph_adds_up_what_eager_operations_do(compiled: bool) -> None:
    """The trace knows neither the number nor the values of the ids."""
    import tensorflow as tf

    def sums(ids: Any, values: Any) -> list[Any]:
        result = tf.IndexedSlices(values, ids)
        rows = sparse_gradients.rows_of(result)
        assert rows is not None
        return [*rows, sparse_gradients.dense(result, ROWS)]

    specs = [tf.TensorSpec([None], "int32"), tf.TensorSpec([None, 5], "float32")]
    graph = tf.function(sums, input_signature=specs, autograph=False)
    for count in (len(IDS), 7, 0):
        ids, values = tf.constant(IDS[:count]), tf.constant(VALUES[:count])
        with sparse_gradients.compiled_sums() if compiled else nullcontext():
            result = graph(ids, values)
        for one, other in zip(result, sums(ids, values), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    operations = graph.get_concrete_function().graph.get_operations()
    by_xla = any("_XlaMustCompile" in each.node_def.attr for each in operations)
    assert by_xla == (compiled and not tf.config.list_physical_devices("GPU"))


def test_a_penalty_adds_to_a_gradient_of_either_kind_or_none() -> None:
    penalty = keras.ops.ones((ROWS, 5))
    whole = numpy(gradient(IDS, VALUES, sparse=False))
    for kind in {False, SPARSE}:
        result = sparse_gradients.with_penalty(gradient(IDS, VALUES, sparse=kind), penalty)
        np.testing.assert_allclose(numpy(result), whole + 1, rtol=1e-5, atol=1e-6)
    assert sparse_gradients.with_penalty(None, penalty) is penalty
    assert sparse_gradients.with_penalty(result, None) is result


@tensorflow_only
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ids_may_be_of_either_size(dtype: str) -> None:
    """Keras looks up the ids of an `Input` of 64 bits as they are."""
    result = sparse_gradients.dense(gradient(IDS.astype(dtype), VALUES), ROWS)
    wanted = numpy(gradient(IDS, VALUES, sparse=False))
    np.testing.assert_allclose(numpy(result), wanted, rtol=1e-5, atol=1e-6)


def test_scaled_keeps_its_kind() -> None:
    for kind in {False, SPARSE}:
        result = sparse_gradients.scaled(
            gradient(IDS, VALUES, sparse=kind), keras.ops.cast(0.5, "bfloat16")
        )
        assert sparse_gradients.is_sparse(result) == kind
        half = gradient(IDS, 0.5 * VALUES, sparse=False)
        np.testing.assert_allclose(
            numpy(sparse_gradients.dense(result, ROWS)), numpy(half), rtol=1e-5
        )


def test_rows_at_reads_rows() -> None:
    ids = np.array([[3, 0], [3, 12]], "int32")
    np.testing.assert_array_equal(
        numpy(sparse_gradients.rows_at(table(), ids)), numpy(table())[ids]
    )


def test_outside_of_replicas_a_sum_is_what_it_is_of() -> None:
    dense = [gradient(IDS, VALUES, sparse=False)]
    assert sparse_gradients.sum_over_replicas(dense) is dense
