"""Hierarchical attention against its parts, applied to each session alone."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.models.session_history import SessionHistory
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.arrays import assert_close
from tests.support.small_models import EVENTS, S, inputs, make

B, K, UNITS, GAP, SESSIONS, LONGEST = 5, 3, 2, 100, 3, 2
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def layer() -> SessionHistory:
    layer = SessionHistory(UNITS, GAP, SESSIONS, LONGEST)
    layer(np.zeros((B, 1, K)), *events(0).values(), times=times(0))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def events(seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    present = rng.random((B, S)) < 0.8
    present[-1] = False
    return {
        "events": rng.normal(size=(B, S, K)).astype("float32"),
        "event_mask": present,
    }


def times(seed: int) -> np.ndarray:
    steps = np.random.default_rng(seed).choice([GAP, GAP + 1], size=(B, S))
    return np.cumsum(steps, axis=1) - 5000  # a step of GAP stays in the session


def by_hand(
    layer: SessionHistory, x: np.ndarray, present: np.ndarray, when: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The user, and the weights of events and of their sessions, of one history."""
    of_event, of_session = np.zeros(len(x)), np.zeros(len(x))
    sessions: list[list[int]] = []
    for event in np.flatnonzero(present):
        if not sessions or when[event] - when[sessions[-1][-1]] > GAP:
            sessions.append([])
        sessions[-1].append(event)
    kept = [session[-LONGEST:] for session in sessions[-SESSIONS:]]
    if not kept:
        return np.zeros(2 * UNITS), of_event, of_session
    vectors = []
    for session in kept:
        vector, weights = pooled(layer.of_events, x[session])
        of_event[session] = weights
        vectors.append(vector)
    user, shares = pooled(layer.of_sessions, np.stack(vectors))
    for session, share in zip(kept, shares, strict=True):
        of_session[session] = share
        of_event[session] *= share
    return user, of_event, of_session


def pooled(level: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One level without any padding."""
    found = level.pooling(level.gru(x[None]), return_weights=True)
    vector, weights = (keras.ops.convert_to_numpy(value)[0] for value in found)
    return vector, weights


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(3))
def test_equals_each_session_alone(layer: SessionHistory, seed: int) -> None:
    values, when = events(seed), times(seed)
    query = np.zeros((B, 1, K))
    found = layer(query, *values.values(), times=when, return_weights=True)
    user, of_event, of_session = (keras.ops.convert_to_numpy(x)[:, 0] for x in found)
    for row in range(B):
        expected = by_hand(layer, values["events"][row], values["event_mask"][row], when[row])
        for value, reference in zip((user, of_event, of_session), expected, strict=True):
            np.testing.assert_allclose(value[row], reference, atol=1e-5)
    assert (of_event[-1] == 0).all()
    np.testing.assert_allclose(of_event[:-1].sum(axis=1), 1, atol=1e-5)


def test_config_makes_an_equal_layer(layer: SessionHistory) -> None:
    other = SessionHistory.from_config(layer.get_config())
    values = (np.zeros((B, 1, K)), *events(1).values())
    other(*values, times=times(1))
    other.set_weights(layer.get_weights())
    assert_close(other(*values, times=times(1)), layer(*values, times=times(1)))


def test_explains_events_and_their_sessions() -> None:
    model = make("han")
    values = inputs()
    _, found = model.explain(values)
    shares = {name: keras.ops.convert_to_numpy(weights) for name, weights in found.items()}
    assert list(shares) == ["attention/seen", "attention/seen.sessions"]
    event, session = shares.values()
    assert event.shape == session.shape == (5, 3, S)
    np.testing.assert_allclose(event.sum(axis=-1), 1, atol=1e-5)
    assert (event <= session + 1e-6).all()
    missing = np.all([values[name] == 0 for name in EVENTS], axis=0)
    assert missing.any()
    assert (event.transpose(0, 2, 1)[missing] == 0).all()


def test_history_without_ages_is_refused() -> None:
    item = Categorical("item", size=7)
    without = Schema((item, Sequence("seen", shares="item")), (Task("click"),))
    with pytest.raises(ValueError, match="han uses the times of the events, so the history needs"):
        models.han(without)
    with pytest.raises(ValueError, match="han needs a history"):
        models.han(Schema((item,), (Task("click"),)))
    with pytest.raises(ValueError, match=r"`encoder.positions` 'time_buckets' uses the times"):
        models.din(without, encoder={"name": "transformer", "positions": "time_buckets"})
