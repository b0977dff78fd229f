"""How often items are drawn, and what of a table has a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.objectives import (
    BinaryCrossEntropy,
    Bpr,
    SampledLoss,
    SampledSoftmax,
    chunked_scores,
    sampling,
)
from tests.support.arrays import assert_close
from tests.support.catalogues import (
    COUNTS,
    POSITIONS,
    SIZE,
    STATES,
    TARGETS,
    VECTORS,
    WEIGHTS,
    Catalogue,
    drawn_ids,
    seed,
)
from tests.support.gradients import gradient
from tests.support.layer_case import tensorflow
from tests.support.refusals import refusals

K = 7


@pytest.mark.parametrize("by", ["uniform", "popularity"])
@pytest.mark.parametrize("shared", [False, True])
def test_items_are_drawn_as_often_as_they_should(by: Any, shared: bool) -> None:
    loss = SampledSoftmax(negatives=100_003, by=by, shared=shared)
    ids = drawn_ids(loss, positions=1)
    share = COUNTS * (np.arange(SIZE) > 1) if by == "popularity" else np.arange(SIZE) > 1
    found = np.bincount(ids.ravel(), minlength=SIZE) / ids.size
    assert_close(found, share / share.sum(), atol=5e-3)
    assert np.all(found[share == 0] == 0)


def test_positions_draw_on_their_own_unless_shared() -> None:
    assert len(np.unique(drawn_ids(BinaryCrossEntropy(K)), axis=0)) == POSITIONS
    assert len(np.unique(drawn_ids(BinaryCrossEntropy(K, shared=True)), axis=0)) == 1


def test_each_call_draws_anew() -> None:
    generator, loss = seed(), SampledSoftmax(K)
    first, second = (loss.draw((K,), SIZE, None, generator).ids for _ in range(2))
    assert np.any(ops.convert_to_numpy(first) != ops.convert_to_numpy(second))


def test_two_thousand_million_events_are_drawn_evenly() -> None:
    """A remainder of 32 bits draws the first 295 million 1.4 times as often as the others."""
    counts = np.array([0, 0, 290_000_000, 310_000_000, 900_000_000, 499_999_999, 1], "int32")
    draws = SampledSoftmax(1, by="popularity").draw((200_003,), counts.size, counts, seed())
    found = np.bincount(ops.convert_to_numpy(draws.ids), minlength=counts.size) / 200_003
    share = counts / counts.sum(dtype="int64")
    np.testing.assert_array_less(abs(found - share), 5 * np.sqrt(share / 200_003) + 1e-12 + 1e-4)
    expected = np.log(share[ops.convert_to_numpy(draws.ids)])
    np.testing.assert_allclose(draws.log_expected, expected, rtol=1e-5)


def test_counts_may_sum_to_more_than_float32_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([0, 0, 2**25, 1, 1], "int32")

    def last_events(shape: Any, size: Any, seed: Any) -> Any:
        return ops.cast(size, "int32") - ops.convert_to_tensor(np.array([3, 2, 1], "int32"))

    monkeypatch.setattr(sampling, "random_below", last_events)
    draws = SampledSoftmax(3, by="popularity").draw((3,), 5, counts, seed())
    np.testing.assert_array_equal(draws.ids, [2, 3, 4])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("per_draw", [0, 32])
def test_gradient_of_a_table_has_the_rows_of_targets_and_draws(
    shared: bool, per_draw: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf = tensorflow()
    monkeypatch.setattr(chunked_scores, "MOST_ROWS_PER_DRAW", per_draw)
    loss = BinaryCrossEntropy(3, shared=shared)
    table = tf.Variable(VECTORS)

    class Rows(Catalogue):
        def rows(self, ids: Any) -> Any:
            return tf.gather(table, ids), None

    signature = [tf.TensorSpec((None, 5)), tf.TensorSpec((None,), "int32")]
    generator = seed()

    @tf.function(input_signature=signature)
    def run(states: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            total = loss(states, targets, tf.ones_like(targets), Rows(), None, generator)
        return tape.gradient(total, table)

    found = run(STATES[:2], TARGETS[:2])
    assert isinstance(found, tf.IndexedSlices)
    wanted = {*TARGETS[:2].tolist(), *drawn_ids(loss, positions=2).ravel().tolist()}
    assert set(found.indices.numpy().tolist()) == wanted
    dense = gradient(
        lambda x: loss(STATES[:2], TARGETS[:2], np.ones(2), Catalogue(x), None, seed()), VECTORS
    )
    assert_close(tf.convert_to_tensor(found), dense, atol=1e-5)


def call(loss: SampledLoss, **arguments: Any) -> Any:
    return loss(STATES, TARGETS, WEIGHTS, Catalogue(), **arguments)


test_wrong_arguments = refusals(
    (lambda: SampledSoftmax(negatives=0), "`negatives` must be a positive integer"),
    (lambda: Bpr(by="popular"), "Unknown `by`.*Did you mean 'popularity'"),
    (lambda: Bpr(shared=1), "`shared` must be True or False"),
    (lambda: call(Bpr()), "Bpr draws negatives and needs `seed`"),
    (lambda: call(Bpr(by="popularity"), seed=seed()), "by='popularity' needs `counts`"),
)


def test_a_sampled_loss_must_be_implemented() -> None:
    with pytest.raises(NotImplementedError, match="SampledLoss must implement `losses`"):
        call(SampledLoss(), seed=seed())
