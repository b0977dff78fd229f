"""TiSASRec's intervals: the equation in float64, and what must not change them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import AttentionPooling, Dense, MultiHeadAttention
from recsys_attn.attention.mechanisms import HeadGroups, Lookup, Routed, TimeIntervalValues
from recsys_attn.attention.patterns import (
    Block,
    Causal,
    Dilated,
    Global,
    Local,
    PerHead,
    Prefix,
    Prepended,
    Strided,
)
from recsys_attn.attention.positions import (
    TimeBucketPositions,
    TimeIntervalPositions,
    encodes_order,
)
from recsys_attn.attention.routers import Blocks
from recsys_attn.attention.scores import Dot, SoftCap, TimeBuckets, TimeIntervals
from recsys_attn.serialization import deserialize, serialize
from tests.support.arrays import assert_close, normal, weights_of
from tests.support.layer_case import randomise
from tests.support.references import scores as reference
from tests.support.score_case import B, H, N, with_random_weights

S = 6
# The second user is seven times as slow as the first; two events are at one time.
TIMES = np.array([[0, 3, 3, 10, 31, 90]], "int32") * np.array([[1], [7]], "int32")
ALLOWED = np.tril(np.ones((B, 1, S, S), bool)) & (np.arange(S) < 5)


@pytest.mark.parametrize("scale", [True, False])
def test_intervals_follow_the_equation(scale: bool) -> None:
    query, key = normal((B, S, N, H), (B, S, N, H))
    score = with_random_weights(TimeIntervals(8, scale=scale), query, key)
    (kernel,) = weights_of(score)
    at = TIMES[:, None]
    logits = np.asarray(score(query, key, allowed=ALLOWED, query_positions=at, key_positions=at))
    for b, n, i, j in np.ndindex(logits.shape):
        apart = np.abs(TIMES[b][:, None] - TIMES[b][None])
        unit = apart[(apart > 0) & ALLOWED[b, 0]].min()
        interval = min(abs(int(TIMES[b, i]) - int(TIMES[b, j])) // unit, 8)
        expected = query[b, i, n].astype("float64") @ kernel[n, :, interval]
        expected /= H**0.5 if scale else 1
        np.testing.assert_allclose(logits[b, n, i, j], expected, atol=1e-5)
    assert unit == 21  # 3 seconds of the first user


@pytest.mark.parametrize("causal", [True, False])
def test_tisasrec_follows_its_equation(causal: bool) -> None:
    """Equations 3 to 5: intervals in the keys and in the values, of random weights."""
    mechanism = Dense(
        Dot(scale=True) + TimeIntervals(8, scale=True),
        "causal" if causal else None,
        pair_values=TimeIntervalValues(8),
    )
    query, key, value = normal((B, S, N, H), (B, S, N, H), (B, S, N, 3))
    present = np.broadcast_to(np.arange(S) < 5, (B, S))
    arguments = {"query_positions": TIMES, "key_positions": TIMES, "key_mask": present}
    mechanism(query, key, value, **arguments)
    randomise(mechanism)
    keys, values = weights_of(mechanism)
    output, _ = mechanism(query, key, value, **arguments)
    for b in range(B):
        apart = np.abs(TIMES[b][:, None] - TIMES[b][None])
        allowed = present[b] & (np.tri(S, dtype=bool) | (not causal))
        r = np.minimum(apart // apart[allowed & (apart > 0)].min(), 8)
        for n, i in np.ndindex(N, S):
            q, k, v = (x[b, :, n].astype("float64") for x in (query, key, value))
            seen = np.flatnonzero(allowed[i])
            logits = np.array([q[i] @ (k[j] + keys[n, :, r[i, j]]) for j in seen]) / H**0.5
            weights = np.exp(logits) / np.exp(logits).sum()
            expected = weights @ np.array([v[j] + values[n, r[i, j]] for j in seen])
            np.testing.assert_allclose(np.asarray(output)[b, i, n], expected, atol=1e-5)


@pytest.mark.parametrize("queries", [S, 2])
def test_hstu_adds_the_bias_by_place_and_by_time(queries: int) -> None:
    """`q k + table[bucket of the time] + places[i - j]`; a number for each distance of places."""
    positions = TimeBucketPositions(4, step=0.7, place_distances=S)
    mechanism = positions.in_mechanism(Dense("dot", weighting="silu"))
    query, key, value = normal((B, queries, N, H), (B, S, N, H), (B, S, N, 3))
    arguments = {"query_positions": TIMES[:, S - queries :], "key_positions": TIMES}
    mechanism(query, key, value, **arguments)
    randomise(mechanism)
    _, weights = mechanism(query, key, value, **arguments)
    by_time, by_place = weights_of(mechanism)
    distances = [mechanism.score.scores[2].bucket(d) for d in range(1 - S, S)]
    assert len(set(distances)) == 2 * S - 1
    time_score = reference.total(reference.dot(), reference.time_buckets(by_time, 0.7))
    for b, n, i, j in np.ndindex(np.asarray(weights).shape):
        t = S - queries + i
        pair = query[b, i, n].astype("float64"), key[b, j, n].astype("float64"), n
        logit = time_score(*pair, int(TIMES[b, t]), int(TIMES[b, j]))
        logit += by_place[n, distances[t - j + S - 1]]
        expected = logit / (1 + np.exp(-logit)) / S  # SiLU over the number of keys
        np.testing.assert_allclose(np.asarray(weights)[b, n, i, j], expected, atol=1e-5)


def test_distances_of_places_need_no_dense_attention() -> None:
    routed = TimeBucketPositions(place_distances=S).in_mechanism("longformer")
    assert [type(part).__name__ for part in routed.score.scores[1:]] == [
        "TimeBuckets",
        "RelativeBuckets",
    ]


def test_next_event_is_the_event_to_predict() -> None:
    query, key, value = normal((B, S, N, H), (B, S, N, H), (B, S, N, 3))
    times = TIMES - TIMES[:, -1:] - 5
    following = np.pad(times[:, 1:], ((0, 0), (0, 1)))  # the request is at 0
    ahead = Dense(Dot() + TimeBuckets(6, step=0.7, next_event=True), "causal")
    present = Dense(Dot() + TimeBuckets(6, step=0.7))
    ahead(query, key, value, query_positions=times, key_positions=times)
    randomise(ahead)
    _, weights = ahead(query, key, value, query_positions=times, key_positions=times)
    present.build(query.shape, key.shape, value.shape)
    present.set_weights(ahead.get_weights())

    def expected(positions: np.ndarray) -> np.ndarray:
        # The pattern counts the places of the events, and hides the next one.
        seen = np.tri(S, dtype=bool)[None]
        given = {"query_positions": positions, "key_positions": times, "attention_mask": seen}
        return np.asarray(present(query, key, value, **given)[1])

    assert_close(weights, expected(following))
    assert np.abs(expected(times) - expected(following)).max() > 0.1


@pytest.mark.parametrize("given", [{}, {"query_positions": [1], "key_positions": [1, 2, 3]}])
def test_next_event_needs_the_times_of_one_sequence(given: dict[str, list[int]]) -> None:
    query, key = normal((1, len(given.get("query_positions", [0] * 3)), N, H), (1, 3, N, H))
    with pytest.raises(ValueError, match="`next_event` needs the times of one whole sequence"):
        Dense(Dot() + TimeBuckets(4, next_event=True))(query, key, key, **given)
    with pytest.raises(ValueError, match="`next_event` reads the event after a query"):
        Routed(Blocks(2), Dot() + TimeBuckets(4, next_event=True))


PATTERNS = {
    "causal": Causal(),
    "local": Local(1),
    "local and causal": Local(2, 0) & Causal(),
    "dilated": Dilated(1, 2),
    "strided": Strided(2),
    "block": Block(2),
    "global": Local(1) | Global((0, -1)),
    "prefix": Prefix(2),
    "prepended": Prepended(1, Causal()),
    "not": ~Local(1),
    "per head": PerHead((Causal(), Local(1))),
}
TIMED = {
    "buckets": {"score": Dot() + TimeBuckets(6, step=0.7)},
    "capped": {"score": SoftCap(Dot() + TimeBuckets(6, step=0.7), 3.0)},
    "intervals": {"score": Dot() + TimeIntervals(8)},
    "values": {"pair_values": TimeIntervalValues(8)},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
@pytest.mark.parametrize("timed", TIMED.values(), ids=list(TIMED))
def test_a_pattern_counts_places_beside_times(timed: Any, pattern: Any) -> None:
    """Events of one second are apart, and events that are days apart are neighbours."""
    query, key, value = normal((B, S, 2, H), (B, S, 2, H), (B, S, 2, 3))
    present = np.broadcast_to(np.arange(S) < 5, (B, S))
    times = TIMES * 86_400 - 90 * 86_400 * 7
    parts = {name: deserialize(serialize(part)) for name, part in timed.items()}
    mechanism = Dense(pattern=pattern, **parts)
    given = {"query_positions": times, "key_positions": times, "key_mask": present}
    _, weights = mechanism(query, key, value, **given)
    expected = np.zeros((B, 2, S, S), bool)
    expected[..., :5, :5] = pattern.matrix(5)
    np.testing.assert_array_equal(np.asarray(weights)[:, :, :5] > 0, expected[:, :, :5])


def test_blocks_with_a_pattern_count_places_beside_times() -> None:
    query, key, value = normal((B, S, 2, H), (B, S, 2, H), (B, S, 2, 3))
    given = {"query_positions": TIMES * 86_400, "key_positions": TIMES * 86_400}
    dense, blocks = (
        make(score=Dot() + TimeBuckets(6, step=0.7), pattern=Local(1))
        for make in (Dense, partial(Routed, Blocks(2, before=1, after=1)))
    )
    for mechanism in (dense, blocks):
        mechanism(query, key, value, **given)
        randomise(mechanism)
    blocks.set_weights(dense.get_weights())
    assert_close(blocks(query, key, value, **given)[0], dense(query, key, value, **given)[0])


@pytest.mark.parametrize("make", [Dense, partial(Routed, Blocks(2))])
def test_candidates_and_tasks_have_no_times(make: Any) -> None:
    with pytest.raises(ValueError, match="reads the times of queries and keys"):
        AttentionPooling(make(score=Dot() + TimeBuckets(4)))
    with pytest.raises(ValueError, match="positions are times for this score"):
        Lookup(Blocks(2), Dot() + TimeBuckets(4), Local(1))


def test_only_dense_has_values_of_pairs() -> None:
    positions = TimeIntervalPositions(8, values=True)
    made = positions.in_mechanism(HeadGroups(["transformer", "sparsemax"]))
    assert [type(each.pair_values) for each in made.mechanisms] == [TimeIntervalValues] * 2
    assert encodes_order(Dense(pair_values="time_intervals"))
    with pytest.raises(ValueError, match=r"unit of time intervals is .* or the mechanism Dense"):
        positions.in_mechanism("longformer")
    with pytest.raises(TypeError, match="Routed has no argument `pair_values`"):
        Routed("lsh", pair_values="time_intervals")


@pytest.mark.parametrize("mechanism", [Routed, Lookup])
def test_the_unit_of_intervals_is_that_of_all_events(mechanism: type) -> None:
    for score in (TimeIntervals(8), SoftCap(Dot() + TimeIntervals(8), 3.0)):
        with pytest.raises(ValueError, match="time intervals is the shortest one of all events"):
            mechanism(Blocks(2), score)


@pytest.mark.parametrize("kind", ["intervals", "buckets"])
def test_only_differences_of_times_count(kind: str) -> None:
    times = TimeIntervals(8) if kind == "intervals" else TimeBuckets(8, step=0.8)
    layer = MultiHeadAttention(2, 3, Dense(Dot(scale=True) + times, "causal"))
    (events,) = normal((B, S, 5))
    events[1] = events[0]
    present = np.arange(S) < np.array([[S], [S]])
    layer(events)
    randomise(layer)

    def output(times: np.ndarray) -> np.ndarray:
        return np.asarray(layer(events, query_mask=present, query_positions=times))

    found = output(TIMES)
    assert_close(output(TIMES + 1_700_000_000), found)  # seconds since 1970
    # Intervals are in units of the user, buckets are not.
    slow_user_differs = np.abs(found[1] - found[0]).max() > 1e-3
    assert slow_user_differs == (kind == "buckets")
    assert np.abs(output(TIMES**2) - found).max() > 1e-3
    # The times of padding are arbitrary.
    present[:, -1] = False
    hidden = output(TIMES)
    late = TIMES.copy()
    late[:, -1] = 32
    assert_close(output(late), hidden)
