"""Scores with a table of as many positions as there can be keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import Dense, Lookup, Routed, scores
from recsys_attn.attention.routers import Blocks
from recsys_attn.interactions import TargetAttention
from tests.support.arrays import normal, weights_of
from tests.support.layer_case import tensorflow
from tests.support.score_case import LENGTH, B, H, N, S, T, vectors, with_random_weights

Make = Callable[..., scores.Score]
LENGTHS: dict[str, Make] = {
    "location": scores.Location,
    "dense_synthesizer": scores.DenseSynthesizer,
    "random_synthesizer": scores.RandomSynthesizer,
    "factorised_dense_synthesizer": scores.FactorisedDenseSynthesizer,
    "factorised_random_synthesizer": scores.FactorisedRandomSynthesizer,
}
every_score = pytest.mark.parametrize("make", LENGTHS.values(), ids=LENGTHS)


@every_score
def test_length_is_that_of_the_keys_unless_given(make: Make) -> None:
    query, key = vectors()
    (longer,) = normal((B, S + 1, N, H))
    layer, explicit = make(), make(length=S)
    for built in (layer, explicit):
        with_random_weights(built, query, key)
    np.testing.assert_array_equal(layer(query, key), explicit(query, key))
    assert layer.get_config()["length"] is None
    for built in (layer, explicit):
        with pytest.raises(ValueError, match=r"build the score with length=6 or more.*length=5"):
            built(query, longer)


@every_score
def test_length_is_needed_where_the_keys_are_unknown(make: Make) -> None:
    with pytest.raises(ValueError, match=r"`length` must be given.*Received: length=None"):
        make().build((None, None, N, H), (None, None, N, H))
    make(length=S).build((None, None, N, H), (None, None, N, H))


@every_score
def test_positions_beyond_the_length_read_the_nearest_end(make: Make) -> None:
    query, key = vectors()
    layer = with_random_weights(make(length=LENGTH), query, key)
    outside = (np.array([[[-1, 3, LENGTH]]]), np.array([[[-9, 0, 2, LENGTH, 99]]]))
    inside = [np.clip(places, 0, LENGTH - 1) for places in outside]
    np.testing.assert_array_equal(
        layer(query, key, None, *outside), layer(query, key, None, *inside)
    )


MECHANISMS: dict[str, Callable[[scores.Score], Any]] = {
    "dense": Dense,
    "routed": lambda score: Routed(Blocks(4), score),
    "retrieved": lambda score: Lookup(Blocks(4), score),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("score", "mechanism"),
    [*((score, "routed") for score in LENGTHS), ("location", "dense"), ("location", "retrieved")],
)
def test_mechanism_counts_whole_keys_not_those_of_a_group(score: str, mechanism: str) -> None:
    """Blocks of 4 fill five events up to eight."""
    tf = tensorflow()
    fitting, longer = normal((B, LENGTH, N, H), (B, LENGTH + 1, N, H))
    layer = MECHANISMS[mechanism](LENGTHS[score](length=LENGTH))
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


@pytest.mark.sampled(2)
@every_score
def test_keys_are_counted_where_positions_are_given_too(make: Make) -> None:
    tf = tensorflow()
    query, fitting = vectors(keys=LENGTH)
    layer = Dense(make(length=LENGTH))
    layer(query, fitting, fitting)
    unknown = tf.TensorSpec((None, None, N, H))

    @tf.function(input_signature=[unknown, unknown])
    def output(query: Any, key: Any) -> Any:
        rows, columns = (tf.zeros_like(x[:, :, 0, 0], "int32") for x in (query, key))
        return layer(query, key, key, query_positions=rows, key_positions=columns)[0]

    assert output(query, fitting).shape == (B, T, N, H)
    with pytest.raises(tf.errors.InvalidArgumentError):
        output(query, np.repeat(fitting, 2, axis=1))


@every_score
def test_target_attention_refuses_more_events_than_the_length(make: Make) -> None:
    candidates, history = normal((B, T, H), (B, S, H))
    target_attention = TargetAttention(Dense(make(length=S - 1)))
    with pytest.raises(ValueError, match=r"build the score with length=5 or more.*length=4"):
        target_attention(candidates, history)
    # Every candidate stands one past the last position.
    assert TargetAttention(Dense(make(length=S)))(candidates, history).shape == (B, T, H)


def test_fixed_table_is_not_trained_and_differs_by_head() -> None:
    query, key = normal((B, T, 2, H), (B, S, 2, H))
    score = scores.RandomSynthesizer(trainable=False)
    score(query, key)
    assert not score.trainable_weights
    (table,) = weights_of(score)
    assert np.abs(table[0] - table[1]).max() > 0.01
