"""A small catalogue of items, and positions that predict them."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from recsys_attn.objectives import SampledLoss

SIZE, WIDTH, POSITIONS = 11, 5, 13
_RNG = np.random.default_rng(3)
VECTORS = _RNG.normal(size=(SIZE, WIDTH)).astype("float32")
OFFSETS = _RNG.normal(size=SIZE).astype("float32")
STATES = _RNG.normal(size=(POSITIONS, WIDTH)).astype("float32")
TARGETS = _RNG.integers(2, SIZE, POSITIONS).astype("int32")
WEIGHTS = (_RNG.random(POSITIONS) * (_RNG.random(POSITIONS) < 0.7)).astype("float32")
COUNTS = np.array([0, 7, 3, 0, 1, 17, 2, 0, 5, 1, 13], "int32")


class Catalogue(NamedTuple):
    """The output of a model, from tensors."""

    vectors: Any = VECTORS
    offsets: Any = None

    @property
    def size(self) -> int:
        return int(self.vectors.shape[0])

    def rows(self, ids: Any) -> tuple[Any, Any]:
        vectors = ops.take(self.vectors, ids, axis=0)
        return vectors, None if self.offsets is None else ops.take(self.offsets, ids, axis=0)

    def table(self) -> tuple[Any, Any]:
        return self.vectors, self.offsets


def seed() -> Any:
    """A generator that starts anew."""
    return keras.random.SeedGenerator(11)


def drawn_ids(loss: SampledLoss, positions: int = POSITIONS) -> np.ndarray:
    """What the loss draws with `seed()`, (P, K)."""
    shape = (loss.negatives,) if loss.shared else (positions, loss.negatives)
    ids = ops.convert_to_numpy(loss.draw(shape, SIZE, COUNTS, seed()).ids)
    return np.broadcast_to(ids, (positions, loss.negatives))
