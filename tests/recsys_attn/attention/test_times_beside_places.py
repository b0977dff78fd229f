"""Parts that count places beside parts that read times: no time reaches them, nor the future."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, TwoStreamEncoder
from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.layers.segment_attention import SegmentAttention
from recsys_attn.attention.mechanisms import (
    Compressed,
    Dense,
    HeadGroups,
    Lookup,
    Routed,
    TimeIntervalValues,
)
from recsys_attn.attention.mechanisms.pair_values import PairValues
from recsys_attn.attention.patterns import Causal, Local
from recsys_attn.attention.routers import Blocks, KMeans, Lsh
from recsys_attn.attention.scores import (
    Alibi,
    Dot,
    Location,
    Mixture,
    QkNorm,
    RelativeBuckets,
    RelativeDot,
    Rotary,
    SharedDot,
    SoftCap,
    Temperature,
    TimeBuckets,
    TimeIntervals,
)
from recsys_attn.blocks import (
    ControlTokens,
    TransformerBlock,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
)
from recsys_attn.models.encoded_history import EncodedHistory
from recsys_attn.models.event_encoder import EventEncoder
from recsys_attn.models.histories import MeanHistory
from tests.support.arrays import assert_close, normal
from tests.support.layer_case import randomise

B, S, E = 2, 9, 8
DAY = 86_400
TIMES = {
    "equal": np.zeros((B, S), "int32"),
    "days apart": np.arange(S, dtype="int32")[None] * np.array([[DAY], [7 * DAY]], "int32"),
    "mixed": np.array([[0, 0, 3, 3, 3, DAY, DAY, 9 * DAY, 9 * DAY]], "int32")
    * np.array([[1], [2]], "int32"),
}


class Earlier(PairValues):
    """Vectors of pairs by their places."""

    num_kinds = 3

    def kinds(self, query: Any, key: Any, allowed: Any, rows: Any, columns: Any) -> Any:
        if rows is None:
            rows = columns = np.arange(S, dtype="int32")[None, None]
        return keras.ops.clip(rows[..., :, None] - columns[..., None, :], 0, 2)


def buckets() -> TimeBuckets:
    return TimeBuckets(20, step=0.7)


def beside_buckets(make: Callable[[], Any]) -> Any:
    return make() + buckets()


def causal(make: Callable[[], Any]) -> Dense:
    return Dense(make(), "causal")


PLACES: dict[str, Callable[[], Any]] = {
    "alibi": Alibi,
    "buckets": lambda: RelativeBuckets(8, 5),
    "relative dot": lambda: RelativeDot(3),
    "rotary": Rotary,
    "shared dot": SharedDot,
    "location": lambda: Location(S),
}
SCORES: dict[str, Callable[[], Any]] = {
    **{f"{name}, buckets": partial(beside_buckets, make) for name, make in PLACES.items()},
    "intervals": lambda: Rotary() + TimeIntervals(8),
    "cap around the sum": lambda: SoftCap(Alibi() + (Dot() + buckets()), 3.0),
    "cap inside the sum": lambda: QkNorm(Rotary()) + SoftCap(buckets(), 3.0),
    "temperature of a mixture": lambda: Temperature(Mixture([Rotary(), buckets()])),
}
MECHANISMS: dict[str, Callable[[], Any]] = {
    **{f"dense, {name}": partial(causal, make) for name, make in SCORES.items()},
    "dense, values of places": lambda: Dense(Dot() + buckets(), "causal", pair_values=Earlier()),
    "dense, values of times": lambda: Dense(Rotary(), "causal", pair_values=TimeIntervalValues(8)),
    "blocks": lambda: Routed(Blocks(2, after=0), Rotary() + buckets(), Local(2) & Causal()),
    "blocks, first": lambda: Routed(Blocks(3, after=0, first=1), Alibi() + buckets(), Causal()),
    "lsh": lambda: Routed(Lsh(3, buckets=2, causal=True), SharedDot() + buckets()),
    "k-means": lambda: Routed(KMeans(2, 4, causal=True), Rotary() + buckets()),
    "groups": lambda: HeadGroups([Dense(Dot() + buckets(), "causal"), Dense(Dot(), "causal")]),
    "groups, all kinds": lambda: HeadGroups(
        [
            HeadGroups([Dense(Rotary(), Local(2, 0)), Dense(Dot() + buckets(), "causal")]),
            Routed(Blocks(2, after=0), Alibi(), Causal()),
        ],
        [2, 2],
    ),
}


def attention(make: Callable[[], Any], heads: int = 4) -> MultiHeadAttention:
    return MultiHeadAttention(heads, 4, make())


def encoder(make: Callable[[], Any], **options: Any) -> TransformerEncoder:
    return TransformerEncoder([TransformerBlock(attention(make), **options)])


def without_times(layer: Any) -> None:
    """Draws the weights, but for those of times: zeros."""
    randomise(layer)
    for weight in layer.weights:
        if "/time_" in f"/{weight.path}":
            weight.assign(np.zeros(weight.shape))


def require_places(call: Callable[[Any, Any], Any], layer: Any, causal: bool = True) -> None:
    """Checks a call `(events, times)` for every kind of times."""
    (events,) = normal((B, S, E))
    call(events, TIMES["mixed"])
    without_times(layer)
    expected = np.asarray(call(events, TIMES["days apart"]))
    for place, times in zip((1, 4, S - 1), TIMES.values(), strict=True):
        if not causal:
            assert_close(np.asarray(call(events, times)), expected)
            continue
        later = events.copy()
        later[:, place:] += 5 * normal((B, S - place, E))[0]
        changed = np.asarray(call(later, times))
        assert_close(changed[:, :place], expected[:, :place])
        assert np.abs(changed[:, place:] - expected[:, place:]).max() > 1e-3
    randomise(layer)
    equal, mixed = (np.asarray(call(events, TIMES[name])) for name in ("equal", "mixed"))
    assert np.abs(equal - mixed).max() > 1e-4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", MECHANISMS.values(), ids=list(MECHANISMS))
def test_no_part_takes_times_for_places(make: Callable[[], Any]) -> None:
    layer = attention(make)
    assert layer.mechanism.is_causal
    require_places(lambda events, times: layer(events, query_positions=times), layer)


def in_encoder(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = encoder(make)
    return layer, lambda x, times: layer(x, positions=times)


def reversible(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = encoder(make, residual="reversible")
    return layer, lambda x, times: layer(x, positions=times)


def in_decoder(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    block = TransformerDecoderBlock(attention(make), MultiHeadAttention(2, 4))
    layer = TransformerDecoder([block])
    (beside,) = normal((B, 3, E))
    return layer, lambda x, times: layer(x, beside, positions=times)


def beside_context(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = attention(make)
    (context,) = normal((B, 3, 5))
    return layer, lambda x, times: layer(x, query_positions=times, context=context)


def beside_segments(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = SegmentAttention(attention(make))
    segments = np.tile(np.arange(S) // 4, (B, 1))
    given = {"query_segments": segments, "key_segments": segments}
    return layer, lambda x, times: layer(x, query_positions=times, **given)


def behind_tokens(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = ControlTokens(encoder(make))
    (tokens,) = normal((B, 2, 5))
    return layer, lambda x, times: layer(x, tokens, positions=times)


def of_a_model(make: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    layer = EventEncoder(encoder(make), "learned")
    assert layer.uses_times
    return layer, lambda x, times: layer(x, np.ones((B, S), bool), times)


PLACED = {
    part.__name__: part
    for part in (
        in_encoder,
        reversible,
        in_decoder,
        beside_context,
        beside_segments,
        behind_tokens,
        of_a_model,
    )
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("made", PLACED.values(), ids=list(PLACED))
def test_no_layer_around_hands_times_to_places(made: Callable[..., Any]) -> None:
    layer, call = made(lambda: Dense(Rotary() + buckets(), "causal"))
    require_places(call, layer)


def test_streams_and_histories_keep_times_from_places() -> None:
    streams = TwoStreamEncoder(encoder(lambda: Dense(Rotary() + buckets())))
    ranks = np.broadcast_to(np.arange(S), (B, S))
    require_places(lambda x, t: sum(streams(x, ranks, positions=t)), streams, causal=False)
    history = EncodedHistory(encoder(MECHANISMS["groups, all kinds"]), MeanHistory())
    present = np.arange(S) < np.array([[S], [S - 2]])
    (query,) = normal((B, 3, E))
    require_places(lambda x, t: history(query, x, present, times=t), history, causal=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("router", [Blocks(2, before=4), Lsh(S, buckets=1), KMeans(1, S)])
def test_routers_look_up_places_beside_times(router: Any) -> None:
    """All keys are looked up, so it is dense attention of queries after the last of them."""
    lookup, dense = Lookup(router, Rotary() + buckets()), Dense(Rotary() + buckets())
    query, key, value = normal((B, 3, 2, 4), (B, S, 2, 4), (B, S, 2, 5))
    for times in TIMES.values():
        given = {"query_positions": np.repeat(times[:, -1:] + 60, 3, 1), "key_positions": times}
        lookup(query, key, value, **given)
        randomise(lookup.score)
        masks = Masks.of(query.shape, key.shape, **given).by_time()
        masks = masks._replace(query_positions=np.full((1, 1, 3), S, "int32"))
        dense(query, key, value, masks)
        dense.set_weights(lookup.score.get_weights())
        assert_close(lookup(query, key, value, **given)[0], dense(query, key, value, masks)[0])


def test_blocks_of_times_and_of_places_are_refused() -> None:
    timed, placed, neither = (
        TransformerBlock(attention(make))
        for make in (
            lambda: Dense(Dot() + buckets(), "causal"),
            partial(Dense, pattern="causal"),
            Dense,
        )
    )
    assert TransformerEncoder([timed, neither]).uses_times
    with pytest.raises(ValueError, match="times for one of the `blocks` and places for another"):
        TransformerEncoder([timed, placed])


def test_parts_without_times_refuse_scores_of_times() -> None:
    with pytest.raises(ValueError, match="score of times is not possible"):
        Compressed("pool", Dot() + buckets())
