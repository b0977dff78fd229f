"""A small data set with missing values, and the fields that a model makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from recsys_attn import models
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.tower import by_width, field_blocks
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.support.layer_case import randomise

B, T, S = 4, 3, 5
FEATURES = (
    Categorical("user", "context", size=7),
    Numeric("age", "context"),
    Categorical("item", size=9),
    Categorical("tags", multivalued=True, max_length=2, size=5),
    Sequence("seen", shares="item", max_length=S),
)
FIELDS = ("item", "tags", "user", "age", "seen")  # in the order of the tower
TASKS = {"one": (Task("click"),), "two": (Task("click"), Task("buy", weight=0.5))}
RNG = np.random.default_rng(0)
INPUTS = {
    "user": np.array([0, 3, 4, 5], "int32"),  # the first is missing
    "age": np.array([1.0, np.nan, 0.5, -1.0], "float32"),
    "item": RNG.integers(0, 9, (B, T)).astype("int32"),
    "tags": RNG.integers(0, 5, (B, T, 2)).astype("int32"),
    "seen": RNG.integers(0, 9, (B, S)).astype("int32"),
}


def random_model(name: str, tasks: str, **options: Any) -> RankingModel:
    """A model for the data set, with weights that no initialiser makes."""
    model: RankingModel = models.get(name)(Schema(FEATURES, TASKS[tasks]), **options)
    randomise(model.embedding)
    randomise(model.tower)
    return model


def fields_of(model: RankingModel, linear: int) -> tuple[np.ndarray, np.ndarray]:
    """The linear weights (B, T, F, linear) and the vectors (B, T, F, E)."""
    embedded = model.embedding(INPUTS)
    interests, _ = model.tower.interests(embedded)
    (block,), _ = by_width(*field_blocks(embedded, interests))
    fields = np.asarray(block, "float64")
    return fields[..., :linear], fields[..., linear:]
