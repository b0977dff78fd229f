"""Scores with a table of as many positions as there can be keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import Dense, Lookup, Routed, scores
from recsys_attn.attention.routers import Blocks
from recsys_attn.interactions import TargetAttention
from tests.support.layer_case import tensorflow
from tests.support.score_case import LENGTH, B, H, N, S, T, arrays, weights, with_random_weights

LENGTHS = {
    "location": scores.Location,
    "dense_synthesizer": scores.DenseSynthesizer,
    "random_synthesizer": scores.RandomSynthesizer,
    "factorised_dense_synthesizer": scores.FactorisedDenseSynthesizer,
    "factorised_random_synthesizer": scores.FactorisedRandomSynthesizer,
}
ALL_LENGTHS = pytest.mark.parametrize("make", LENGTHS.values(), ids=LENGTHS)


@ALL_LENGTHS
def test_length_is_that_of_the_keys_unless_given(make: Callable[..., scores.Score]) -> None:
    query, key, longer = arrays((B, T, N, H), (B, S, N, H), (B, S + 1, N, H))
    layer, explicit = make(), make(length=S)
    for built in (layer, explicit):
        with_random_weights(built, query, key)
    np.testing.assert_array_equal(layer(query, key), explicit(query, key))
    assert layer.get_config()["length"] is None
    for built in (layer, explicit):
        with pytest.raises(ValueError, match=r"build the score with length=6 or more.*length=5"):
            built(query, longer)


@ALL_LENGTHS
def test_length_must_be_given_where_the_keys_are_not_known(
    make: Callable[..., scores.Score],
) -> None:
    with pytest.raises(ValueError, match=r"`length` must be given.*Received: length=None"):
        make().build((None, None, N, H), (None, None, N, H))
    make(length=S).build((None, None, N, H), (None, None, N, H))


@ALL_LENGTHS
def test_positions_outside_of_the_length_read_the_nearest_end(
    make: Callable[..., scores.Score],
) -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    layer = with_random_weights(make(length=LENGTH), query, key)
    outside = (np.array([[[-1, 3, LENGTH]]]), np.array([[[-9, 0, 2, LENGTH, 99]]]))
    inside = [np.clip(places, 0, LENGTH - 1) for places in outside]
    np.testing.assert_array_equal(
        layer(query, key, None, *outside), layer(query, key, None, *inside)
    )


MECHANISMS = {
    "dense": Dense,
    "routed": lambda score: Routed(Blocks(4), score),
    "retrieved": lambda score: Lookup(Blocks(4), score),
}
ALL_MECHANISMS = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


@ALL_LENGTHS
def test_a_graph_fails_where_there_are_more_keys_than_it_could_know_of(
    make: Callable[..., scores.Score],
) -> None:
    tf = tensorflow()
    query, fitting, longer = arrays((B, T, N, H), (B, LENGTH, N, H), (B, LENGTH + 1, N, H))
    layer = with_random_weights(make(length=LENGTH), query, fitting)
    unknown = tf.TensorSpec((None, None, N, H))
    logits = tf.function(layer, input_signature=[unknown, unknown])
    assert logits(query, fitting).shape == (B, N, T, LENGTH)
    with pytest.raises(tf.errors.InvalidArgumentError):
        logits(query, longer)


@ALL_LENGTHS
@ALL_MECHANISMS
def test_a_mechanism_counts_whole_keys_and_not_those_of_a_group(
    make: Callable[..., scores.Score], mechanism: Callable[..., Any]
) -> None:
    """Blocks of 4 fill five events up to eight."""
    tf = tensorflow()
    fitting, longer = arrays((B, LENGTH, N, H), (B, LENGTH + 1, N, H))
    layer = mechanism(make(length=LENGTH))
    assert layer(fitting, fitting, fitting)[0].shape == (B, LENGTH, N, H)
    with pytest.raises(ValueError, match=rf"length={LENGTH + 1} or more.*length={LENGTH}"):
        layer(longer, longer, longer)
    graph = tf.function(
        lambda events: layer(events, events, events)[0],
        input_signature=[tf.TensorSpec((None, None, N, H))],
    )
    assert graph(fitting).shape == (B, LENGTH, N, H)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(longer)


@ALL_LENGTHS
def test_a_mechanism_counts_keys_whose_positions_are_given(
    make: Callable[..., scores.Score],
) -> None:
    tf = tensorflow()
    query, fitting, longer = arrays((B, T, N, H), (B, LENGTH, N, H), (B, LENGTH + 1, N, H))
    layer = Dense(make(length=LENGTH))
    layer(query, fitting, fitting)
    unknown = tf.TensorSpec((None, None, N, H))

    @tf.function(input_signature=[unknown, unknown])
    def output(query: Any, key: Any) -> Any:
        rows, columns = (tf.zeros_like(x[:, :, 0, 0], "int32") for x in (query, key))
        return layer(query, key, key, query_positions=rows, key_positions=columns)[0]

    assert output(query, fitting).shape == (B, T, N, H)
    with pytest.raises(tf.errors.InvalidArgumentError):
        output(query, longer)


@ALL_LENGTHS
def test_more_keys_are_refused_where_positions_are_given_too(
    make: Callable[..., scores.Score],
) -> None:
    candidates, history = arrays((B, T, H), (B, S, H))
    target_attention = TargetAttention(Dense(make(length=S - 1)))
    with pytest.raises(ValueError, match=r"build the score with length=5 or more.*length=4"):
        target_attention(candidates, history)
    # Every candidate stands one past the last position.
    assert TargetAttention(Dense(make(length=S)))(candidates, history).shape == (B, T, H)


def test_fixed_table_is_not_trained_and_every_head_has_its_own() -> None:
    query, key = arrays((B, T, 2, H), (B, S, 2, H))
    score = scores.RandomSynthesizer(trainable=False)
    score(query, key)
    assert not score.trainable_weights
    (table,) = weights(score)
    assert np.abs(table[0] - table[1]).max() > 0.01


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scores.Location(0), "`length` must be a positive integer"),
        (lambda: scores.DenseSynthesizer(4, units=0), "`units` must be a positive integer"),
        (lambda: scores.RandomSynthesizer(-2), "`length` must be a positive integer"),
        (
            lambda: scores.FactorisedDenseSynthesizer(12, factor=5),
            r"`factor` must divide the length.*factor=5, length=12",
        ),
        (lambda: scores.FactorisedRandomSynthesizer(4, rank=0), "`rank` must be a positive"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
