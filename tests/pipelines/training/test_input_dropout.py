"""Dropout of inputs: the share, what stays, whole requests, and draws that follow from the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.features.unseen import UnseenValues
from pipelines.training.input_dropout import InputDropout
from recsys_attn.schema import (
    CANDIDATE_MASK,
    UNKNOWN_ID,
    Categorical,
    Numeric,
    Schema,
    Sequence,
    Task,
)

B, T, S = 997, 5, 7
SCHEMA = Schema(
    (
        Categorical("item", size=9),
        Numeric("rate"),
        Numeric("age", side="context"),
        Sequence("seen", shares="item", max_length=S),
        Categorical("user", side="context", size=9),
    ),
    (Task("click"),),
)
IDS = np.resize(np.array([0, 2, 3, 4, 8], "int32"), (B, T * S))
INPUTS = {
    "item": tf.constant(IDS[:, :T]),
    "seen": tf.constant(IDS[:, :S]),
    "rate": tf.ones((B, T)),
    "age": tf.ones(B),
    "user": tf.constant(IDS.ravel()[:B]),
    CANDIDATE_MASK: tf.ones((B, T), bool),
}


def _dropped(step: int, ids: float = 0.0, state: float = 0.0) -> dict[str, np.ndarray]:
    return _hidden(step, ids=ids, state=state, state_names=["seen", "rate", "of no feature"])


def _hidden(step: int, **options: Any) -> dict[str, np.ndarray]:
    dropout = InputDropout(SCHEMA, **options)
    return {name: value.numpy() for name, value in dropout(INPUTS, tf.constant(step)).items()}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_share_of_ids_becomes_unknown(share: float) -> None:
    dropped = _dropped(3, ids=share)
    for name in ("item", "seen"):
        ids = INPUTS[name].numpy()
        changed = dropped[name] != ids
        assert (dropped[name][changed] == UNKNOWN_ID).all()
        assert not changed[ids == 0].any()
        assert changed[ids != 0].mean() == pytest.approx(share, abs=0.03)
    np.testing.assert_array_equal(dropped["rate"], 1)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_state_of_whole_requests_is_missing(share: float) -> None:
    dropped = _dropped(3, state=share)
    lost = np.isnan(dropped["rate"][:, 0])
    assert lost.mean() == pytest.approx(share, abs=0.05)
    np.testing.assert_array_equal(np.isnan(dropped["rate"]), np.repeat(lost[:, None], T, axis=1))
    np.testing.assert_array_equal(dropped["seen"], np.where(lost[:, None], 0, INPUTS["seen"]))
    for name in ("item", "age", CANDIDATE_MASK):
        np.testing.assert_array_equal(dropped[name], INPUTS[name])


def test_state_is_named_by_its_columns() -> None:
    schema = Schema((Numeric("age_log", "context", column="age"), *SCHEMA.features), SCHEMA.tasks)
    inputs = {**INPUTS, "age_log": tf.ones(B)}
    dropped = InputDropout(schema, state=0.5, state_names=["age"])(inputs, tf.constant(3))
    lost = np.isnan(dropped["age"])
    assert lost.any()
    np.testing.assert_array_equal(np.isnan(dropped["age_log"]), lost)


def test_draws_follow_from_the_step() -> None:
    again, first, other = (_dropped(step, 0.3, 0.3) for step in (7, 7, 8))
    for name in ("item", "seen", "rate"):
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name], equal_nan=True)
    with_ids = _dropped(7, ids=0.3)
    assert (
        (with_ids["item"][:, :T] == UNKNOWN_ID) != (with_ids["seen"][:, :T] == UNKNOWN_ID)
    ).any()


def test_ids_are_hidden_in_their_share_of_the_steps() -> None:
    """A step hides an id as candidate and in histories, or nowhere; tables are drawn apart."""
    drawn, steps = np.array([3, 8]), 97
    shares = np.zeros(9, np.float32)
    shares[drawn] = 0.5, 0.2
    hidden = np.zeros((steps, 2, 2))
    for step in range(steps):
        inputs = _hidden(step, hidden={"item": shares, "user": shares})
        for table, names in enumerate((("item", "seen"), ("user",))):
            before = np.concatenate([INPUTS[name].numpy().ravel() for name in names])
            after = np.concatenate([inputs[name].ravel() for name in names])
            for number, id_ in enumerate(drawn):
                (now,) = np.unique(after[before == id_])
                assert now in (id_, UNKNOWN_ID)
                hidden[step, table, number] = now == UNKNOWN_ID
            others = ~np.isin(before, drawn)
            np.testing.assert_array_equal(after[others], before[others])
    np.testing.assert_allclose(hidden.mean(axis=0), [[0.5, 0.2]] * 2, atol=0.17)
    alike = np.corrcoef(hidden.reshape(steps, 4).T)
    np.testing.assert_allclose(alike, np.eye(4), atol=0.35)


def test_without_new_values_nothing_is_hidden() -> None:
    of = UnseenValues(9, np.array([], np.int32), of_last=0.3, of_train=0.0, of_valid=0.3)
    inputs = _hidden(7, hidden={"item": of.hidden, "user": of.hidden})
    for name, before in INPUTS.items():
        np.testing.assert_array_equal(inputs[name], before)
