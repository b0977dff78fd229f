"""Days of a world whose tastes drift."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipelines.ingest.simulate.world import STYLES, World

_INTERESTS = 2  # styles that a user likes
_FIXED = ("hour", "similar")  # effects that are no draws


@dataclass(frozen=True)
class Day:
    """The world of a day, and the styles that users like on it.

    Attributes:
        number: Days since the first.
        world: The world, with the effects of the day.
        interests: Two styles of each user `(users, 2)`.
    """

    number: int
    world: World
    interests: np.ndarray

    @classmethod
    def first(cls, world: World, seed: int) -> Day:
        """The first day."""
        rng = np.random.default_rng([seed, 4, 0])
        return cls(0, world, rng.integers(STYLES, size=(world.size.users, _INTERESTS)))

    def next(self, seed: int) -> Day:
        """The day after: a share `drift` of users has new interests, and effects have moved.

        `effect = sqrt(1 - drift**2) * effect + drift * draw` keeps the variance.
        """
        drift = self.world.size.drift
        rng = np.random.default_rng([seed, 4, self.number + 1])
        changes = rng.random(len(self.interests)) < drift
        others = rng.integers(STYLES, size=self.interests.shape)
        draws = self.world.draw_effects(rng)
        effects = {
            name: old if name in _FIXED else np.sqrt(1 - drift**2) * old + drift * draws[name]
            for name, old in self.world.effects.items()
        }
        interests = np.where(changes[:, None], others, self.interests)
        return Day(self.number + 1, replace(self.world, effects=effects), interests)
