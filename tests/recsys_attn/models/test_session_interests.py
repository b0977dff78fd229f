"""DSIN's interests of sessions against their equations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import MultiHeadAttention
from recsys_attn.blocks import TransformerBlock
from recsys_attn.models.session_interests import SessionInterests
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.arrays import assert_close
from tests.support.references.histories import (
    bilinear_weights,
    both_directions,
    post_norm_block,
    randomise,
)

B, T, S, K, UNITS, GAP, SESSIONS, LONGEST = 5, 2, 7, 4, 3, 100, 3, 2
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def by_hand(layer: SessionInterests, query: np.ndarray, x: np.ndarray, when: np.ndarray) -> Arrays:
    """The output, and the weights of events and sessions, of the present events of a history."""
    of_event, of_session = np.zeros((2, len(query), len(x)))
    if not len(x):
        return np.zeros((len(query), K + 2 * UNITS)), of_event, of_session
    begins = [0, *(np.flatnonzero(np.diff(when) > GAP) + 1), len(x)]
    every = [np.arange(a, b) for a, b in itertools.pairwise(begins)]
    sessions = [session[-LONGEST:] for session in every[-SESSIONS:]]
    bias = biases(layer)
    interests = []
    for later, session in zip(range(len(sessions))[::-1], sessions, strict=True):
        inputs = np.array(
            [
                x[event] + bias["session"][later] + bias["position"][behind] + bias["unit"]
                for behind, event in zip(range(len(session))[::-1], session, strict=True)
            ]
        )
        encoded, _ = post_norm_block(layer.encoder, inputs, lambda y: np.maximum(y, 0))
        interests.append(encoded.mean(axis=0))
    stacked = np.array(interests)
    states = both_directions(layer.lstm, stacked)
    a = bilinear_weights(layer.of_interests, query, stacked)
    b = bilinear_weights(layer.of_states, query, states)
    for number, session in enumerate(sessions):
        of_session[:, session] = a[:, number, None]
        of_event[:, session] = a[:, number, None] / len(session)
    return np.concatenate([a @ stacked, b @ states], axis=1), of_event, of_session


def biases(layer: SessionInterests) -> dict[str, np.ndarray]:
    own = {"session": layer.session_bias, "position": layer.position_bias, "unit": layer.unit_bias}
    return {name: np.asarray(weight, "float64") for name, weight in own.items()}


def test_equals_the_equations_session_by_session() -> None:
    """Sessions that are too long, too many, with missing events; no history; padded candidates."""
    rng = np.random.default_rng(0)
    events = rng.normal(size=(B, S, K)).astype("float32")
    query = rng.normal(size=(B, T, K)).astype("float32")
    present = rng.random((B, S)) < 0.8
    present[0], present[-1] = True, False
    real = np.ones((B, T), bool)
    real[1, 1] = False
    times = np.cumsum(rng.choice([GAP, GAP + 1], size=(B, S)), axis=1) - 5000
    block = TransformerBlock(MultiHeadAttention(2, 3), 11, placement="post")
    layer = SessionInterests(block, UNITS, GAP, SESSIONS, LONGEST)
    layer.build(query.shape, events.shape)
    randomise(layer)
    found = layer(query, events, present, query_mask=real, times=times, return_weights=True)
    expected = np.zeros((B, T, K + 2 * UNITS)), np.zeros((B, T, S)), np.zeros((B, T, S))
    for row in range(B):
        here = present[row]
        candidates = query[row, real[row]].astype("float64")
        one = by_hand(layer, candidates, events[row, here].astype("float64"), times[row, here])
        expected[0][row, real[row]] = one[0]
        for place in (1, 2):
            expected[place][np.ix_([row], np.flatnonzero(real[row]), here)] = one[place]
    for value, wanted in zip(found, expected, strict=True):
        assert_close(value, wanted)
    np.testing.assert_allclose(expected[1][0].sum(axis=-1), 1)


def test_config_makes_an_equal_layer() -> None:
    block = TransformerBlock(MultiHeadAttention(2, 3), placement="post")
    layer = SessionInterests(block, UNITS, GAP, SESSIONS, LONGEST)
    config = layer.get_config()
    assert SessionInterests.from_config(config).get_config() == config


def test_history_without_ages_is_refused() -> None:
    item = Categorical("item", size=7)
    without = Schema((item, Sequence("seen", shares="item")), (Task("click"),))
    with pytest.raises(ValueError, match="dsin uses the times of the events, so the history needs"):
        models.dsin(without)
