"""The hidden truth of the simulated marketplace: users, items and effects.

A click's logit is a sum of effects of single fields; of tables of two fields whose rows and
columns average to zero, so that neither field alone shows them; of one such table that turns the
effect of the price; and of how many past clicks share the item's hidden style, with diminishing
returns. The style is not a column: it must be learned from the item id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import SimulateOptions

START = 1_700_000_000  # Unix seconds of the first request
SEGMENTS, CATEGORIES, BRANDS, STYLES = 8, 12, 20, 8
HOURS, HOUR_PARTS = 24, 4
DEVICE_SHARE = np.array([0.55, 0.33, 0.12])
UNKNOWN_AGE = 0.05  # users whose age is not known
UNKNOWN_PRICE = 0.03  # items without a price

SEGMENT_NAMES = pa.array([f"segment-{number}" for number in range(SEGMENTS)])
CATEGORY_NAMES = pa.array([f"category-{number}" for number in range(CATEGORIES)])
BRAND_NAMES = pa.array([f"brand-{number}" for number in range(BRANDS)])
DEVICE_NAMES = pa.array(["mobile", "desktop", "tablet"])
AGE_NAMES = pa.array(["18-24", "25-34", "35-44", "45-54", "55-64", "65+", None])
DEVICES, AGE_GROUPS = len(DEVICE_NAMES), len(AGE_NAMES) - 1


@dataclass(frozen=True)
class World:
    """Users, items and tables of effects; all are functions of the seed and the sizes."""

    size: SimulateOptions
    user_names: pa.Array
    segment: np.ndarray  # of a user
    age_group: np.ndarray  # of a user, AGE_GROUPS where unknown
    taste: np.ndarray  # style that a user likes most
    category: np.ndarray  # of an item
    brand: np.ndarray  # of an item
    style: np.ndarray  # of an item, hidden
    share: np.ndarray  # of an item, its popularity
    log_price: np.ndarray  # of an item, standardised, 0 where unknown
    price: np.ndarray  # of an item, NaN where unknown
    by_style: np.ndarray  # items, sorted by style
    popularity: np.ndarray  # up to each of `by_style`, cumulative
    style_start: np.ndarray  # popularity before each style, and 1
    hour_share: np.ndarray
    effects: dict[str, np.ndarray]

    @classmethod
    def create(cls, size: SimulateOptions, seed: int) -> World:
        """The world of a seed."""
        rng = np.random.default_rng([seed, 1])
        age_group = rng.integers(AGE_GROUPS, size=size.users)
        age_group[rng.random(size.users) < UNKNOWN_AGE] = AGE_GROUPS
        # Balanced, so that no field reveals the hidden style of an item.
        place = rng.permutation(size.items)
        category, style = place % CATEGORIES, place // CATEGORIES % STYLES
        brand = rng.integers(BRANDS, size=size.items)
        log_price = rng.standard_normal(size.items)
        unknown = rng.random(size.items) < UNKNOWN_PRICE
        share = rng.permutation((1 + np.arange(size.items)) ** -0.4)
        share = share / share.sum()
        by_style = np.argsort(style, kind="stable")
        popularity = np.cumsum(share[by_style])
        starts = np.searchsorted(style[by_style], np.arange(1, STYLES + 1))
        hour_share = 1.2 + np.sin((np.arange(HOURS) - 11) / HOURS * 2 * np.pi)
        hour_share = hour_share / hour_share.sum()
        world = cls(
            size=size,
            user_names=pa.array([f"user-{number}" for number in range(size.users)]),
            segment=rng.integers(SEGMENTS, size=size.users),
            age_group=age_group,
            taste=rng.integers(STYLES, size=size.users),
            category=category,
            brand=brand,
            style=style,
            share=share,
            log_price=np.where(unknown, 0.0, log_price),
            price=np.where(unknown, np.nan, np.round(np.exp(3.5 + 0.7 * log_price), 2)),
            by_style=by_style,
            popularity=popularity,
            style_start=np.concatenate(([0.0], popularity[starts - 1])),
            hour_share=hour_share,
            effects={},
        )
        return replace(world, effects=world.draw_effects(rng))

    def draw_effects(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Tables of effects, of which only those of `hour` and `similar` are not random."""
        categories = np.bincount(self.category, self.share, CATEGORIES)
        brands = np.bincount(self.brand, self.share, BRANDS)
        segments, ages = np.ones(SEGMENTS), np.ones(AGE_GROUPS)
        parts = self.hour_share.reshape(HOUR_PARTS, -1).sum(axis=1)
        return {
            "item": 0.5 * rng.standard_normal(self.size.items),
            "segment": 0.2 * rng.standard_normal(SEGMENTS),
            "hour": 0.2 * np.sin((np.arange(HOURS) - 15) / HOURS * 2 * np.pi),
            "segment x category": 0.9 * crossed(rng, segments, categories),
            "age x brand": _or_unknown(0.5 * crossed(rng, ages, brands)),
            "device x hour": 0.5 * crossed(rng, DEVICE_SHARE, parts),
            "similar": 0.9 * np.log1p(np.arange(self.size.history_length + 1)),
            "age x category": _or_unknown(crossed(rng, ages, categories)),
            "device x category": crossed(rng, DEVICE_SHARE, categories),
        }

    def pick(self, quantile: np.ndarray) -> np.ndarray:
        """Items by popularity at quantiles in [0, 1); those of one style lie together."""
        return self.by_style[np.searchsorted(self.popularity[:-1], quantile, side="right")]

    def user_features(self) -> dict[str, pa.Array]:
        """The columns of the features of each user."""
        return {
            "segment": SEGMENT_NAMES.take(pa.array(self.segment)),
            "age_group": AGE_NAMES.take(pa.array(self.age_group)),
        }

    def item_features(self) -> dict[str, pa.Array]:
        """The columns of the features of each item."""
        return {
            "category": CATEGORY_NAMES.take(pa.array(self.category)),
            "brand": BRAND_NAMES.take(pa.array(self.brand)),
            "price": pa.array(self.price, mask=np.isnan(self.price)),
        }


def crossed(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A random table whose rows and columns have zero mean.

    Every row's mean (weighted by the shares `columns`) and every column's mean (by `rows`) is
    zero; the weighted variance is one. A level of share 0 has no effect.
    """
    rows, columns = rows / rows.sum(), columns / columns.sum()
    table = rng.standard_normal((len(rows), len(columns)))
    table -= (table @ columns)[:, None]
    table -= rows @ table
    return table / np.sqrt(rows @ table**2 @ columns)


def _or_unknown(table: np.ndarray) -> np.ndarray:
    """Appends a row of zeros, for unknown values."""
    return np.vstack([table, np.zeros(table.shape[1])])
