"""The true probabilities of clicks and conversions.

The click's logit is the sum of the world's effects. The conversion's is
`scale * (correlation * z(click's logit) + sqrt(1 - correlation**2) * z(other tables))`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.ingest.simulate.request_draws import RequestDraws, draw_requests, requests_at_once
from pipelines.ingest.simulate.world import HOUR_PARTS, HOURS, World

CLICK_RATE = 0.2
CONVERSION_RATE = 0.25  # of the clicked
CONVERSION_SCALE = 1.2  # standard deviation of the conversion's logit


class ClickModel:
    """The probabilities of a world, with offsets for its click and conversion rates.

    Args:
        world: The world in which the rates hold.
        seed: Seed of the requests that give the offsets.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._correlation = world.size.correlation
        pilots = 2 * requests_at_once(world.size)
        pilot = draw_requests(world, np.random.default_rng([seed, 3]), pilots)
        click, other = _click_logit(world, pilot), _other_logit(world, pilot)
        self._click_moments = click.mean(), click.std()
        self._other_moments = other.mean(), other.std()
        self._click_offset = _offset(click, np.ones_like(click), CLICK_RATE)
        conversion = self._conversion_logit(click, other)
        clicked = _sigmoid(click + self._click_offset)
        self._conversion_offset = _offset(conversion, clicked, CONVERSION_RATE)

    def probabilities(self, world: World, requests: RequestDraws) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of a click, and of a conversion after it, `(R, T)`."""
        logit = _click_logit(world, requests)
        conversion = self._conversion_logit(logit, _other_logit(world, requests))
        click = _sigmoid(logit + self._click_offset)
        return click, _sigmoid(conversion + self._conversion_offset)

    @staticmethod
    def columns(
        click: np.ndarray, conversion: np.ndarray, draws: np.ndarray
    ) -> dict[str, pa.Array]:
        """Labels and true probabilities of each candidate.

        Args:
            click: Probabilities `(R, T)`.
            conversion: Probabilities `(R, T)`.
            draws: Uniform numbers for both `(2, R, T)`.
        """
        clicked, converted = draws[0] < click, draws[1] < conversion
        return {
            "click": pa.array(clicked.ravel().astype(np.int8)),
            "conversion": pa.array(converted.ravel().astype(np.int8), mask=~clicked.ravel()),
            "click_probability": pa.array(click.ravel()),
            "conversion_probability": pa.array(conversion.ravel()),
        }

    def _conversion_logit(self, click: np.ndarray, other: np.ndarray) -> np.ndarray:
        correlation = self._correlation
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
