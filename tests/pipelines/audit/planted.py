"""A model whose scores come from known events, and rows for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.features import FittedFeatures
from pipelines.features.fit import fit
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions import TargetAttention
from recsys_attn.models import RankingModel
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Categorical, Schema, Sequence, Task

STYLES, ITEMS, LENGTH, ROWS = 4, 29, 7, 61
SCHEMA = Schema(
    (
        Categorical("item", dtype="int64"),
        Categorical("device", "context"),
        Sequence("seen", shares="item", dtype="int64", max_length=LENGTH),
    ),
    (Task("click"), Task("buy")),
)


def table() -> pa.Table:
    """Rows of items and of histories, some of them empty."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, LENGTH + 1, ROWS)
    lengths[:3] = 0, 1, LENGTH
    return pa.table(
        {
            "item": rng.integers(0, ITEMS, ROWS),
            "device": rng.choice(["phone", "desk"], ROWS),
            "seen": [rng.integers(0, ITEMS, n).tolist() for n in lengths],
            "user": np.arange(ROWS) // 3,
        }
    )


def fitted(rows: pa.Table) -> FittedFeatures:
    """Transforms fitted on the rows."""
    return fit(SCHEMA, [rows])


def untrained(features: FittedFeatures) -> RankingModel:
    """Target attention with plain products, and a linear head."""
    attention = TargetAttention({"class_name": "dense", "config": LIKE})
    embedding = FeatureEmbedding(features.schema, STYLES, embeddings_initializer="random_normal")
    tower = Tower({"history": attention}, FieldInteraction(), TaskHeads(["click", "buy"]))
    return RankingModel(embedding, tower)


def model(features: FittedFeatures) -> RankingModel:
    """The logit of `click` counts the events whose style is that of the item; `buy` has 0.

    Items of one style have one vector, of length one and orthogonal to those of the others, so that
    a dot product is 1 or 0: the interest of the candidate is the number of like events, times the
    vector of their style.
    """
    made = untrained(features)
    embedding, tower = made.embedding, made.tower
    (rows,) = [w for w in embedding.weights if w.name.startswith("table")]
    rows.assign(np.eye(STYLES)[np.arange(rows.shape[0]) % STYLES])
    for weight in tower.weights:
        weight.assign(np.zeros(weight.shape))
    click = next(w for w in tower.weights if len(w.shape) == 2)
    click.assign(np.arange(click.shape[0])[:, None] >= click.shape[0] - STYLES)
    return made


LIKE = {"score": "dot", "weighting": "identity"}


def like_events(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Which events (rows, S) have the style of the item."""
    item, seen = inputs["item"], inputs["seen"]
    return (seen != 0) & (seen % STYLES == item % STYLES)
