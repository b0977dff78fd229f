"""The simulated marketplace as a source: clicks and conversions with true probabilities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import DataOptions, SimulateOptions
from pipelines.ingest.simulate.request_draws import RequestDraws, draw_requests
from pipelines.ingest.simulate.world import (
    AGE_NAMES,
    BRAND_NAMES,
    CATEGORY_NAMES,
    DEVICE_NAMES,
    HOUR_PARTS,
    HOURS,
    SEGMENT_NAMES,
    World,
)
from pipelines.ingest.source import ALL, Columns, Source, SourceFile

REQUESTS_PER_CHUNK = 8_192
_EVENTS_PER_CHUNK = REQUESTS_PER_CHUNK * 128  # fewer requests with long histories
START = 1_700_000_000  # Unix seconds of the first request
SECONDS = 20  # from one request to the next

CLICK_RATE = 0.2
CONVERSION_RATE = 0.25  # of the clicked
CONVERSION_SCALE = 1.2  # standard deviation of the conversion's logit

_PILOT_REQUESTS = 16_384


class Marketplace:
    """A world, and the offsets for its click and conversion rates.

    The click's logit is the sum of the world's effects. The conversion's is
    `scale * (correlation * z(click's logit) + sqrt(1 - correlation**2) * z(other tables))`.
    """

    def __init__(self, size: SimulateOptions, seed: int) -> None:
        self._world = World.create(size, seed)
        self._seed = seed
        fitting = _EVENTS_PER_CHUNK // size.history_length
        self.requests_per_chunk = min(REQUESTS_PER_CHUNK, max(1, fitting))
        pilots = min(_PILOT_REQUESTS, max(1, 2 * fitting))
        pilot = draw_requests(self._world, np.random.default_rng([seed, 3]), pilots)
        click, other = _click_logit(self._world, pilot), _other_logit(self._world, pilot)
        self._click_moments = click.mean(), click.std()
        self._other_moments = other.mean(), other.std()
        self._click_offset = _offset(click, np.ones_like(click), CLICK_RATE)
        conversion = self._conversion_logit(click, other)
        clicked = _sigmoid(click + self._click_offset)
        self._conversion_offset = _offset(conversion, clicked, CONVERSION_RATE)

    def chunk(self, number: int) -> pa.Table:
        """The rows of a chunk of requests; a function of the seed, the sizes and its number."""
        rng = np.random.default_rng([self._seed, 2, number])
        requests = draw_requests(self._world, rng, self.requests_per_chunk)
        logit = _click_logit(self._world, requests)
        click = _sigmoid(logit + self._click_offset)
        conversion = self._conversion_logit(logit, _other_logit(self._world, requests))
        conversion = _sigmoid(conversion + self._conversion_offset)
        clicked = rng.random(click.shape) < click
        converted = rng.random(click.shape) < conversion
        labels = {
            "click": pa.array(clicked.ravel().astype(np.int8)),
            "conversion": pa.array(converted.ravel().astype(np.int8), mask=~clicked.ravel()),
            "click_probability": pa.array(click.ravel()),
            "conversion_probability": pa.array(conversion.ravel()),
        }
        first = number * self.requests_per_chunk
        return pa.table(_columns(self._world, requests, first) | labels)

    def _conversion_logit(self, click: np.ndarray, other: np.ndarray) -> np.ndarray:
        correlation = self._world.size.correlation
        (click_mean, click_scale), (other_mean, other_scale) = (
            self._click_moments,
            self._other_moments,
        )
        shared = correlation * (click - click_mean) / click_scale
        independent = np.sqrt(1 - correlation**2) * (other - other_mean) / other_scale
        return CONVERSION_SCALE * (shared + independent)


def _click_logit(world: World, requests: RequestDraws) -> np.ndarray:
    """Logit of a click (R, T), without its offset."""
    effects, item = world.effects, requests.item
    segment = world.segment[requests.user][:, None]
    age = world.age_group[requests.user][:, None]
    device = requests.device[:, None]
    part = requests.hour[:, None] // (HOURS // HOUR_PARTS)
    return (
        effects["item"][item]
        + effects["segment"][segment]
        + effects["hour"][requests.hour][:, None]
        + effects["segment x category"][segment, world.category[item]]
        + effects["age x brand"][age, world.brand[item]]
        + effects["device x hour"][device, part] * world.log_price[item]
        + effects["similar"][_similar(world, requests)]
    )


def _similar(world: World, requests: RequestDraws) -> np.ndarray:
    """Number of past clicks with the candidate's hidden style (R, T), without the recent ones."""
    length = (requests.clicked >= 0).sum(axis=1, keepdims=True)
    counts = np.arange(requests.clicked.shape[1]) < length - world.size.recent
    past_style = np.where(counts, world.style[requests.clicked], -1)
    style = world.style[requests.item]
    return sum(style == past_style[:, [event]] for event in range(past_style.shape[1]))


def _other_logit(world: World, requests: RequestDraws) -> np.ndarray:
    """The part of a conversion's logit that is independent of the click (R, T)."""
    category = world.category[requests.item]
    age = world.age_group[requests.user][:, None]
    return (
        world.effects["age x category"][age, category]
        + 0.7 * world.effects["device x category"][requests.device[:, None], category]
        - 0.7 * world.log_price[requests.item]
    )


def _columns(world: World, requests: RequestDraws, first: int) -> dict[str, pa.Array]:
    count, candidates = requests.item.shape
    number = np.arange(first, first + count)
    row = pa.array(np.repeat(np.arange(count), candidates))
    item = requests.item.ravel()
    past = requests.clicked >= 0
    offsets = pa.array(np.concatenate(([0], np.cumsum(past.sum(axis=1)))), pa.int32())
    clicked = requests.clicked[past]

    def repeat(values: pa.Array) -> pa.Array:
        return values.take(row)

    def names(values: pa.Array, index: np.ndarray) -> pa.Array:
        return values.take(pa.array(index))

    def lists(values: pa.Array) -> pa.Array:
        return repeat(pa.ListArray.from_arrays(offsets, values))

    return {
        "request_id": repeat(pa.array(number)),
        "timestamp": repeat(pa.array(START + SECONDS * number)),
        "user_id": repeat(names(world.user_names, requests.user)),
        "segment": repeat(names(SEGMENT_NAMES, world.segment[requests.user])),
        "age_group": repeat(names(AGE_NAMES, world.age_group[requests.user])),
        "device": repeat(names(DEVICE_NAMES, requests.device)),
        "hour": repeat(pa.array(requests.hour)),
        "clicked_items": lists(pa.array(clicked)),
        "clicked_categories": lists(names(CATEGORY_NAMES, world.category[clicked])),
        "item_id": pa.array(item),
        "category": names(CATEGORY_NAMES, world.category[item]),
        "brand": names(BRAND_NAMES, world.brand[item]),
        "price": pa.array(world.price[item], mask=np.isnan(world.price[item])),
    }


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit))


def _offset(logit: np.ndarray, weight: np.ndarray, rate: float) -> float:
    """The offset that makes the weighted mean probability `rate`, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        mean = np.average(_sigmoid(logit + middle), weights=weight)
        low, high = (middle, high) if mean < rate else (low, middle)
    return (low + high) / 2


def read(options: DataOptions, seed: int) -> Source:
    """Simulates requests chunk by chunk; the first ones do not depend on the total number."""
    size = options.simulate or SimulateOptions()
    requests = size.rows // size.candidates

    def chunks(columns: Columns) -> Iterator[pa.Table]:
        marketplace = Marketplace(size, seed)
        size_of_chunk = marketplace.requests_per_chunk
        for chunk in range(-(-requests // size_of_chunk)):
            left = requests - chunk * size_of_chunk
            yield marketplace.chunk(chunk).slice(0, left * size.candidates)

    return Source(
        {ALL: [SourceFile("simulate", chunks)]},
        request="request_id",
        user="user_id",
        time="timestamp",
        time_quantile=lambda share: START + SECONDS * round(share * requests),
    )
