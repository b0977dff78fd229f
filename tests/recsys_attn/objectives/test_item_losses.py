"""The full softmax in chunks, against one position and one item at a time."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.objectives import ITEM_LOSSES, ItemLoss, Softmax, item_losses
from tests.support.arrays import assert_close
from tests.support.catalogues import (
    OFFSETS,
    POSITIONS,
    STATES,
    TARGETS,
    VECTORS,
    WEIGHTS,
    Catalogue,
)
from tests.support.gradients import gradient, numeric
from tests.support.layer_case import tensorflow
from tests.support.references import item_losses as reference
from tests.support.refusals import refusals

CHUNKS = [1, 4, 13, 17, None]
with_offsets = pytest.mark.parametrize("offsets", [None, OFFSETS], ids=["products", "offsets"])


def expected(states: Any = STATES, vectors: Any = VECTORS, offsets: Any = None) -> np.ndarray:
    each = [
        float(w)
        * reference.softmax(state.astype("float64"), vectors.astype("float64"), offsets, target)
        for state, target, w in zip(states, TARGETS, WEIGHTS, strict=True)
    ]
    return np.asarray(each).sum()


@with_offsets
@pytest.mark.parametrize("chunk", CHUNKS)
def test_softmax_is_the_cross_entropy_over_all_items(chunk: int | None, offsets: Any) -> None:
    loss = Softmax(chunk)(STATES, TARGETS, WEIGHTS, Catalogue(VECTORS, offsets))
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert_close(loss, expected(offsets=offsets), rtol=1e-5)


@pytest.mark.sampled(3)
@with_offsets
@pytest.mark.parametrize("chunk", CHUNKS)
def test_softmax_has_the_gradients_of_the_cross_entropy(chunk: int | None, offsets: Any) -> None:
    loss = Softmax(chunk)

    def of_states(x: Any) -> Any:
        return 3 * loss(x, TARGETS, WEIGHTS, Catalogue(VECTORS, offsets))

    def of_vectors(x: Any) -> Any:
        return 3 * loss(STATES, TARGETS, WEIGHTS, Catalogue(x, offsets))

    wanted = numeric(lambda x: 3 * expected(states=x, offsets=offsets), STATES.astype("float64"))
    assert_close(gradient(of_states, STATES), wanted, atol=1e-5)
    wanted = numeric(lambda x: 3 * expected(vectors=x, offsets=offsets), VECTORS.astype("float64"))
    assert_close(gradient(of_vectors, VECTORS), wanted, atol=1e-5)
    assert np.all(gradient(of_vectors, VECTORS)[:2] == 0)


def test_softmax_has_the_gradient_by_the_offsets() -> None:
    def of_offsets(x: Any) -> Any:
        return Softmax(4)(STATES, TARGETS, WEIGHTS, Catalogue(VECTORS, x))

    wanted = numeric(lambda x: expected(offsets=x), OFFSETS.astype("float64"))
    assert_close(gradient(of_offsets, OFFSETS), wanted, atol=1e-5)


def test_position_without_weight_does_not_count() -> None:
    targets, states = TARGETS.copy(), STATES.copy()
    targets[WEIGHTS == 0], states[WEIGHTS == 0] = 0, 1e3
    found = Softmax(4)(states, targets, WEIGHTS, Catalogue())
    assert float(found) == float(Softmax(4)(STATES, TARGETS, WEIGHTS, Catalogue()))


def test_no_positions_have_no_loss() -> None:
    assert float(Softmax()(STATES[:0], TARGETS[:0], WEIGHTS[:0], Catalogue())) == 0
    found = gradient(
        lambda x: Softmax()(STATES[:0], TARGETS[:0], WEIGHTS[:0], Catalogue(x)), VECTORS
    )
    assert_close(found, np.zeros(VECTORS.shape))


def test_large_scores_stay_finite() -> None:
    def loss(x: Any) -> Any:
        return Softmax()(x, TARGETS, WEIGHTS, Catalogue())

    large = 1e4 * STATES
    assert_close(loss(large), expected(states=large), rtol=1e-5)
    assert np.all(np.isfinite(gradient(loss, large)))


def test_softmax_of_half_precision_states_is_computed_in_float32() -> None:
    half = keras.ops.cast(STATES, "bfloat16")
    rounded = keras.ops.convert_to_numpy(keras.ops.cast(half, "float32"))
    loss = Softmax()(half, TARGETS, WEIGHTS, Catalogue())
    assert_close(loss, expected(states=rounded), rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_graph_traced_once_serves_any_number_of_positions(compiled: bool) -> None:
    tf = tensorflow()
    signature = [tf.TensorSpec((None, 5)), tf.TensorSpec((None,), "int32"), tf.TensorSpec((None,))]

    @tf.function(input_signature=signature, jit_compile=compiled)
    def run(states: Any, targets: Any, weights: Any) -> Any:
        vectors = tf.constant(VECTORS)
        with tf.GradientTape() as tape:
            tape.watch((states, vectors))
            loss = Softmax(4)(states, targets, weights, Catalogue(vectors))
        return loss, *tape.gradient(loss, (states, vectors))

    for count in (0, 3, 8, POSITIONS):
        some = STATES[:count], TARGETS[:count], WEIGHTS[:count]
        loss, by_states, by_vectors = run(*some)
        assert_close(loss, Softmax()(*some, Catalogue()), rtol=1e-5)
        wanted = gradient(lambda x, s=some: Softmax()(x, *s[1:], Catalogue()), STATES[:count])
        assert_close(by_states, wanted, atol=1e-5)
        wanted = gradient(lambda x, s=some: Softmax()(*s, Catalogue(x)), VECTORS)
        assert_close(by_vectors, wanted, atol=1e-5)


@pytest.mark.parametrize(("size", "chunk"), [(1024, 2048), (2**20, 128)])
def test_chunks_have_two_million_logits_or_the_least_number_of_positions(
    size: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    monkeypatch.setattr(
        item_losses, "cross_entropy", lambda *arguments: found.append(arguments[-1])
    )
    Softmax()(STATES, TARGETS, WEIGHTS, Catalogue(np.zeros((size, 5), "float32")))
    assert found == [chunk]


@pytest.mark.parametrize("name", ITEM_LOSSES.members)
def test_losses_survive_their_config(name: str) -> None:
    loss = ITEM_LOSSES.get(name)
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
    assert ITEM_LOSSES.get(saved) == loss
    assert ITEM_LOSSES.get({"class_name": name, "config": loss.get_config()}) == loss


test_wrong_arguments = refusals(
    (lambda: Softmax(chunk=0), "`chunk` must be a positive integer"),
    (lambda: ITEM_LOSSES.get("softmaxx"), "Did you mean 'softmax'"),
    (
        lambda: ITEM_LOSSES.get({"class_name": "softmax", "config": {"negatives": 3}}),
        "has no argument 'negatives'",
    ),
)


def test_a_loss_must_be_implemented() -> None:
    with pytest.raises(NotImplementedError, match="ItemLoss must implement `__call__`"):
        ItemLoss()(STATES, TARGETS, WEIGHTS, Catalogue())
