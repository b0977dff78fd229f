"""Random requests of the simulated marketplace: user, time, history and candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.ingest.data_options import SimulateOptions
from pipelines.ingest.simulate.world import DEVICE_SHARE, DEVICES, HOURS, STYLES, World

_REQUESTS_AT_ONCE = 8_192
_EVENTS_AT_ONCE = _REQUESTS_AT_ONCE * 128  # fewer requests with long histories
_RETRIEVED = 0.35  # candidates that come from the user's interests, as from a retrieval stage
_ON_INTEREST = 0.8  # past clicks on the interests of the moment
_NO_HISTORY = 0.1  # share of requests with an empty history


@dataclass(frozen=True)
class RequestDraws:
    """R requests with T candidates each and histories of up to L clicks, as indices."""

    user: np.ndarray  # (R,)
    device: np.ndarray  # (R,)
    hour: np.ndarray  # (R,)
    item: np.ndarray  # (R, T)
    clicked: np.ndarray  # (R, L) items, oldest first, -1 after the history's end


def requests_at_once(size: SimulateOptions) -> int:
    """How many requests to make together, so that their histories need little memory."""
    return min(_REQUESTS_AT_ONCE, max(1, _EVENTS_AT_ONCE // size.history_length))


def draw_requests(world: World, rng: np.random.Generator, count: int) -> RequestDraws:
    """Draws requests of random users."""
    size = world.size
    user = rng.integers(size.users, size=count)
    # Two interests: the user's and a random one, so that the user id alone does not reveal both.
    interests = np.stack([world.taste[user], rng.integers(STYLES, size=count)], axis=1)
    clicked = _draw_items(world, rng, interests, size.history_length, _ON_INTEREST)
    length = rng.integers(size.recent + 1, size.history_length + 1, size=count)
    length[rng.random(count) < _NO_HISTORY] = 0
    event = np.arange(size.history_length)
    if size.recent:
        anything = world.pick(rng.random(clicked.shape))
        clicked = np.where(event < length[:, None] - size.recent, clicked, anything)
    clicked[event >= length[:, None]] = -1
    item = draw_candidates(world, rng, interests)
    return RequestDraws(
        user=user,
        device=rng.choice(DEVICES, size=count, p=DEVICE_SHARE),
        hour=rng.choice(HOURS, size=count, p=world.hour_share),
        item=item,
        clicked=clicked,
    )


def draw_candidates(world: World, rng: np.random.Generator, interests: np.ndarray) -> np.ndarray:
    """Different items `(R, T)`, some in the style of one of the interests `(R, 2)`."""
    item = _draw_items(world, rng, interests, world.size.candidates, _RETRIEVED)
    _redraw_repeats(world, rng, item)
    return item


def _draw_items(
    world: World, rng: np.random.Generator, interests: np.ndarray, length: int, share: float
) -> np.ndarray:
    """(R, length) items by popularity; a `share` of them in the style of one of the interests."""
    which = rng.integers(interests.shape[1], size=(len(interests), length))
    style = np.take_along_axis(interests, which, axis=1)
    on_interest = rng.random(style.shape) < share
    low = np.where(on_interest, world.style_start[style], 0.0)
    high = np.where(on_interest, world.style_start[style + 1], 1.0)
    return world.pick(low + rng.random(style.shape) * (high - low))


def _redraw_repeats(world: World, rng: np.random.Generator, item: np.ndarray) -> None:
    """Replaces repeated items of a request, in place."""
    for place in range(1, item.shape[1]):
        while True:
            repeated = (item[:, :place] == item[:, place, None]).any(axis=1)
            if not repeated.any():
                break
            item[repeated, place] = world.pick(rng.random(int(repeated.sum())))
