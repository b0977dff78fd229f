"""Mixed and low precision: the tables stay what they are, and losses are scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import LazyAdam, LossScale, RowWiseAdagrad, Split
from tests.support.optimizers import SPARSE, batches, data, gradient, model, numpy, table, train

STARTS = 8


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> Iterator[str]:
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


def losses(make: Callable[[], Any], starts: int = 1) -> tuple[Any, np.ndarray]:
    """A trained model, and the loss of each epoch: the mean over so many first weights.

    These do not depend on the backend's random numbers.
    """
    trained = model()
    trained.compile(make(), "mse")
    trained.optimizer.build(trained.trainable_variables)
    fresh = [numpy(variable) for variable in trained.optimizer.variables]
    found = []
    for seed in range(starts):
        rng = np.random.default_rng(seed)
        trained.set_weights([rng.normal(size=w.shape) * 0.3 for w in trained.get_weights()])
        for variable, value in zip(trained.optimizer.variables, fresh, strict=True):
            variable.assign(value)
        done = trained.fit(*data(), batch_size=4, epochs=5, shuffle=False, verbose=0)
        found.append(done.history["loss"])
    return trained, np.mean(found, axis=0)


def split() -> Split:
    return Split(
        LazyAdam(0.03), keras.optimizers.AdamW(0.01, weight_decay=0.1), global_clipnorm=1.0
    )


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    return losses(split, STARTS)[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("policy", "make"),
    [
        ("mixed_bfloat16", split),
        ("mixed_float16", split),
        ("mixed_float16", lambda: LossScale(split())),
    ],
    indirect=["policy"],
)
def test_learns_as_in_single_precision(
    exact: np.ndarray, policy: str, make: Callable[[], Any]
) -> None:
    """Over several first weights: one pair of runs may part by 3 %, where most part by 0.1 %.

    Adam takes a step of full size where a gradient is next to nothing, and there its sign is that
    of the rounding.
    """
    trained, found = losses(make, STARTS)
    scaled = isinstance(trained.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16" or make is not split)
    assert {v.dtype for v in trained.weights} == {"float32"}
    np.testing.assert_allclose(found, exact, rtol=0.01)


@pytest.mark.parametrize("policy", ["bfloat16"], indirect=True)
def test_slots_have_the_type_of_their_table(policy: str) -> None:
    trained, found = losses(lambda: Split(RowWiseAdagrad(0.03, weight_decay=0.1), "sgd"))
    assert {v.dtype for v in trained.optimizer.embeddings.variables[2:]} == {policy}
    assert found[-1] < found[0]


@pytest.mark.skipif(not SPARSE, reason="Keras' own cannot be applied outside fit on JAX either")
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_step_that_is_not_finite_is_left_out(bad: float) -> None:
    optimizer, variable = LossScale(LazyAdam(0.1), initial_scale=8.0), table()
    ids, values = batches()[0]
    broken = values.copy()
    broken[5, 2] = bad
    optimizer.apply([gradient(ids, broken)], [variable])
    np.testing.assert_array_equal(numpy(variable), numpy(table()))
    assert float(optimizer.dynamic_scale) == 4
    optimizer.apply([gradient(ids, 4 * values)], [variable])
    plain = train(LazyAdam(0.1), table(), [(ids, values)])
    np.testing.assert_allclose(numpy(variable), plain, rtol=1e-6)


@pytest.mark.skipif(not SPARSE, reason="other backends have no sparse gradients")
def test_finite_check_reads_no_whole_table() -> None:
    import tensorflow as tf

    ids, values = batches()[0]
    check = tf.function(LossScale(LazyAdam(0.1)).check_finite)
    graph = check.get_concrete_function([gradient(ids, values)]).graph
    shapes = [t.shape for operation in graph.get_operations() for t in operation.outputs]
    assert not any(shape.rank and shape[0] == 13 for shape in shapes)
