"""The dense mechanism equals loops, and Keras' own attention where that exists."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, presets, scores
from tests.support import reference
from tests.support.arrays import assert_close

B, T, S, N, H, V = 2, 3, 5, 7, 11, 13
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, N, H), (B, S, N, H), (B, S, N, V))
)
MASKS = {
    "query_mask": RNG.random((B, T)) < 0.7,
    "key_mask": RNG.random((B, S)) < 0.7,
    "attention_mask": RNG.random((B, N, T, S)) < 0.7,
}
ALLOWED = (
    MASKS["query_mask"][:, None, :, None]
    & MASKS["key_mask"][:, None, None]
    & MASKS["attention_mask"]
)


@pytest.mark.parametrize("masks", [{}, MASKS], ids=["no masks", "all masks"])
@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("softmax", reference.softmax_weights), ("identity", reference.identity_weights)],
)
def test_dense_equals_loops(weighting: str, expected: object, masks: dict) -> None:
    output, weights = Dense("dot", weighting=weighting)(QUERY, KEY, VALUE, **masks)
    wanted = expected(reference.dot(QUERY, KEY), ALLOWED if masks else None)
    assert_close(weights, wanted)
    np.testing.assert_allclose(output, reference.weighted_sums(wanted, VALUE), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, S])
def test_local_m_is_a_softmax_in_a_window(width: int) -> None:
    rows = np.array([0, 4, 2])
    layer = presets.local_m(width, score="dot")
    output, weights = layer(QUERY, KEY, VALUE, query_positions=rows, key_mask=MASKS["key_mask"])
    inside = np.abs(rows[:, None] - np.arange(S)) <= width
    allowed = np.broadcast_to(inside & MASKS["key_mask"][:, None, None], (B, N, T, S))
    wanted = reference.softmax_weights(reference.dot(QUERY, KEY), allowed)
    assert_close(weights, wanted)
    np.testing.assert_allclose(output, reference.weighted_sums(wanted, VALUE), rtol=1e-4, atol=1e-4)


def test_dropout_drops_weights_in_training_only() -> None:
    layer = Dense("dot", weighting="identity", dropout=0.5)
    value = np.ones((B, S, N, 1), "float32")
    still, weights = layer(QUERY, KEY, value)
    np.testing.assert_allclose(
        np.swapaxes(still, 1, 2)[..., 0], np.sum(weights, axis=-1), rtol=1e-4, atol=1e-4
    )
    dropped, reported = layer(QUERY, KEY, value, training=True)
    assert np.abs(np.asarray(dropped) - np.asarray(still)).max() > 0.1
    np.testing.assert_allclose(reported, weights, rtol=1e-5)


def test_two_mechanisms_may_share_a_score_without_weights() -> None:
    score = scores.Dot()
    first, _ = Dense(score)(QUERY, KEY, VALUE)
    second, _ = Dense(score)(QUERY, KEY, VALUE)
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_part_made_by_name_takes_the_dtype_policy() -> None:
    layer = Dense(scores.Dot(dtype="float32"), weighting="softmax", dtype="mixed_bfloat16")
    assert layer.score.compute_dtype == "float32"
    assert layer.weighting.compute_dtype == "bfloat16"
    output, _ = layer(QUERY, KEY, VALUE)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"


@pytest.mark.parametrize(
    ("positions", "error", "message"),
    [
        ({"query_positions": [0.5] * T}, TypeError, "must be integers.*dtype=float32"),
        ({"key_positions": [True] * S}, TypeError, "must be integers.*dtype=bool"),
        (
            {"query_positions": np.arange(S)},
            ValueError,
            r"must have shape \(T,\) or \(B, T\) or \(B, N, T\) with B=2, N=7, T=3\. Rec.*\(5,\)",
        ),
        ({"key_positions": np.zeros((B, T), int)}, ValueError, r"N=7, S=5\. Received: .*\(2, 3\)"),
        ({"key_positions": np.zeros((3, S), int)}, ValueError, r"N=7, S=5\. Received: .*\(3, 5\)"),
    ],
)
def test_positions_of_another_kind_or_shape_are_refused(
    positions: dict, error: type[Exception], message: str
) -> None:
    (name,) = positions
    with pytest.raises(error, match=f"`{name}` .*{message}"):
        Dense(pattern="causal")(QUERY, KEY, VALUE, **positions)


def test_one_query_takes_no_more_than_one_position() -> None:
    with pytest.raises(ValueError, match=r"`query_positions` must .*T=1\. Received: .*\(7,\)"):
        Dense(pattern="causal")(QUERY[:, :1], KEY, VALUE, query_positions=np.arange(7))


BANS = [(-np.inf, "float32"), (-np.inf, "bfloat16"), (-1e9, "mixed_float16")]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("bias", "policy"), BANS)
def test_infinite_bias_gives_no_nan(bias: float, policy: str, training: bool) -> None:
    banned = np.where(MASKS["attention_mask"], 0, bias).astype("float32")
    banned[0, 0, 0] = bias  # a whole row, over which the softmax is even
    layer = Dense("scaled_dot", dtype=policy)
    output, weights = layer(QUERY, KEY, VALUE, attention_bias=banned, training=training)
    assert np.isfinite(np.asarray(output, "float32")).all()
    weights = np.asarray(weights, "float32")
    np.testing.assert_allclose(weights[0, 0, 0], 1 / S, rtol=1e-2)
    some = np.isfinite(banned).any(-1) & (banned > -1).any(-1)
    expected = layer(QUERY, KEY, VALUE, attention_mask=banned == 0)[1]
    np.testing.assert_allclose(weights[some], np.asarray(expected, "float32")[some], atol=1e-3)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("bias", "policy"), BANS)
def test_bias_never_overrides_the_mask(bias: float, policy: str, training: bool) -> None:
    banned = np.full((B, N, T, S), bias, "float32")
    banned[0] = np.where(ALLOWED[0], bias, 0)
    layer = Dense("scaled_dot", dtype=policy)
    _, weights = layer(QUERY, KEY, VALUE, **MASKS, attention_bias=banned, training=training)
    even = ALLOWED / np.maximum(ALLOWED.sum(-1, keepdims=True), 1)
    np.testing.assert_allclose(np.asarray(weights, "float32"), even, rtol=1e-2)


def test_keys_and_values_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="with the same S and N"):
        Dense()(QUERY, KEY, VALUE[:, :-1])


def test_config_with_the_unset_options_of_before_is_read() -> None:
    saved = {**Dense("dot").get_config(), "place_bias": None, "next_positions": False}
    assert not Dense.from_config(saved).score.scale
    with pytest.raises(TypeError, match=r"no argument `place_bias`: add it to the score, as in"):
        Dense.from_config({**saved, "place_bias": "alibi"})
