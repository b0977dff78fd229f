"""Each optimizer against its definition, one row at a time, over several steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import WarmUp
from tests.support.optimizers import (
    OPTIMIZERS,
    SPARSE,
    batches,
    needs_lookups,
    numpy,
    table,
    train,
)
from tests.support.references import optimizers as reference

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"weight_decay": 0.3},
    "clipnorm": {"clipnorm": 0.7},
    "clipvalue": {"clipvalue": 0.2},
    "global_clipnorm": {"global_clipnorm": 0.7},
    "decay and clipping": {"weight_decay": 0.3, "global_clipnorm": 0.7},
}
LOOKUP_OPTIONS: dict[str, dict[str, Any]] = {
    "l2": {"l2": 0.9},
    "l2, decay and clipping": {"l2": 0.9, "weight_decay": 0.3, "clipnorm": 0.7},
    "l2 and clipped values": {"l2": 0.9, "clipvalue": 0.2},
}
CASES = [
    *(pytest.param(options, id=name) for name, options in OPTIONS.items()),
    *(pytest.param(o, id=name, marks=needs_lookups) for name, o in LOOKUP_OPTIONS.items()),
]
by_name = pytest.mark.parametrize("name", OPTIMIZERS)


def expected(name: str, options: dict[str, Any], rate: Any) -> np.ndarray:
    return reference.train(OPTIMIZERS[name][1], numpy(table()), batches(), rate, options)


@pytest.mark.sampled(3)
@by_name
@pytest.mark.parametrize("options", CASES)
def test_is_its_definition(name: str, options: dict[str, Any]) -> None:
    found = train(OPTIMIZERS[name][0](0.1, **options), table(), batches())
    np.testing.assert_allclose(
        found, expected(name, options, lambda step: 0.1), rtol=1e-5, atol=1e-5
    )


@by_name
def test_follows_a_schedule(name: str) -> None:
    found = train(OPTIMIZERS[name][0](WarmUp(0.3, 4), weight_decay=0.3), table(), batches())
    wanted = expected(name, {"weight_decay": 0.3}, lambda step: 0.3 * min(1, (step + 1) / 5))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.skipif(not SPARSE, reason="only TensorFlow has both")
@by_name
@pytest.mark.parametrize("options", [pytest.param(o, id=name) for name, o in OPTIONS.items()])
def test_a_gradient_as_large_as_the_table_gives_the_same(
    name: str, options: dict[str, Any]
) -> None:
    make = OPTIMIZERS[name][0]
    sparse = train(make(0.1, **options), table(), batches())
    dense = train(make(0.1, **options), table(), batches(), sparse=False)
    np.testing.assert_allclose(sparse, dense, rtol=1e-6, atol=1e-6)


def every_row(seed: int) -> list[reference.Batch]:
    """Each row is looked up in each step, some of them twice."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.permutation(13), [2, 5]]).astype("int32")
    return [(ids, rng.normal(size=(15, 5)).astype("float32")) for _ in range(5)]


def test_lazy_adam_is_adam_where_every_row_is_touched() -> None:
    lazy = train(OPTIMIZERS["LazyAdam"][0](0.1, weight_decay=0.2), table(), every_row(4))
    dense = train(keras.optimizers.AdamW(0.1, 0.2), table(), every_row(4), sparse=False)
    np.testing.assert_allclose(lazy, dense, rtol=1e-6, atol=1e-6)


def test_lazy_adagrad_is_adagrad_whatever_is_touched() -> None:
    lazy = train(OPTIMIZERS["LazyAdagrad"][0](0.1), table(), batches())
    dense = train(keras.optimizers.Adagrad(0.1), table(), batches(), sparse=False)
    np.testing.assert_allclose(lazy, dense, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "stock"),
    [("LazyAdam", keras.optimizers.AdamW), ("LazyAdagrad", keras.optimizers.Adagrad)],
)
def test_kernels_are_updated_densely(name: str, stock: Any) -> None:
    """A row of a kernel without gradient decays, and its momentum moves it."""
    options = {"learning_rate": 0.1, "weight_decay": 0.2}
    lazy = train(OPTIMIZERS[name][0](**options), table("kernel"), batches())
    dense = train(stock(**options), table("kernel"), batches(), sparse=False)
    np.testing.assert_allclose(lazy, dense, rtol=1e-6, atol=1e-6)


def test_row_wise_adagrad_of_a_kernel_has_no_row_mean() -> None:
    kernel = train(OPTIMIZERS["RowWiseAdagrad"][0](0.1), table("kernel"), batches())
    flat = table("table_1", (65, 1))  # each number is a row of its own
    optimizer = OPTIMIZERS["RowWiseAdagrad"][0](0.1)
    for ids, values in batches():
        dense = np.zeros((13, 5), "float32")
        np.add.at(dense, ids, values)
        optimizer.apply([keras.ops.convert_to_tensor(dense.reshape(65, 1))], [flat])
    np.testing.assert_allclose(kernel.reshape(65, 1), numpy(flat), rtol=1e-6, atol=1e-6)
