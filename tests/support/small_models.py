"""Small models of every kind on one schema, and inputs for them."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np

from recsys_attn import models
from recsys_attn.id_transforms import Age
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

B, T, S = 5, 3, 7
SCHEMA = Schema(
    (
        Categorical("user", "context", size=11),
        Numeric("age", "context"),
        Categorical("item", size=13),
        Categorical("tags", multivalued=True, max_length=2, size=5),
        Numeric("price"),
        Sequence("items_seen", shares="item", history="seen", max_length=S, size=13),
        Sequence("how", history="seen", max_length=S, size=5),
        Sequence("ages", history="seen", max_length=S, dtype="int64", transform=Age()),
    ),
    (Task("click"), Task("buy", weight=0.5)),
)
EVENTS = ("items_seen", "how", "ages")
SMALL = {
    "autoint": {
        "width": 4,
        "interaction": {"num_layers": 2, "num_heads": 2, "head_dim": 3},
        "mlp_units": (5,),
    },
    "din": {
        "width": 4,
        "target_attention": {"class_name": "din", "config": {"units": [5, 3]}},
        "mlp_units": (7,),
    },
    "mmoe": {"width": 4, "experts": {"number": 3, "units": (7, 5)}, "tower_units": (3,)},
    "attention_ranker": {
        "width": 4,
        "target_attention": {"class_name": "interest", "config": {"units": [5, 3]}},
        "interaction": {"num_layers": 2, "head_dim": 3},
        "mlp_units": (11, 7),
        "experts": {"number": 3, "units": (7, 5)},
        "tower_units": (3,),
    },
    "han": {"width": 4, "units": 3, "max_sessions": 3, "max_events": 2, "mlp_units": (5,)},
    "dien": {"width": 4, "auxiliary_weight": 0.01, "mlp_units": (7,)},
    "bst": {"width": 4, "num_heads": 2, "head_dim": 3, "mlp_units": (7,), "dropout": 0.0},
    "dsin": {
        "width": 4,
        "max_sessions": 3,
        "max_events": 2,
        "num_heads": 2,
        "head_dim": 3,
        "units": 3,
        "mlp_units": (7,),
    },
    "mlp": {"width": 4, "units": (7, 5)},
    "logistic_regression": {},
    "ple": {"width": 4, "experts": {"units": (11, 7)}, "tower_units": (5,)},
    "esmm": {"width": 4, "tower_units": (5,)},
    "aitm": {"width": 4, "tower_units": (5,), "dropout": 0.0},
    "pepnet": {
        "domain": ("user",),
        "person": ("item", "age"),
        "width": 4,
        "tower_units": (5,),
        "gate_units": 3,
    },
    "stem": {"width": 4, "experts": {"units": (7,), "gate_units": (3,)}, "tower_units": ()},
    "fm": {"width": 4},
    "afm": {"width": 4, "units": 3},
    "wide_and_deep": {"width": 4, "mlp_units": (5,)},
    "deepfm": {"width": 4, "mlp_units": (5,), "norm": "batch", "dropout": 0.0},
    "xdeepfm": {"width": 4, "cin_units": (3, 2), "mlp_units": (5,), "dropout": 0.0},
    "dcn": {"width": 4, "mlp_units": (5,), "cross": {"rank": 3, "num_experts": 2}},
    "destine": {
        "width": 4,
        "interaction": {"num_layers": 2, "num_heads": 2, "head_dim": 3},
        "mlp_units": (5,),
    },
    "eulernet": {"width": 4, "orders": (5, 3)},
    "fibinet": {"width": 4, "kind": "each", "mlp_units": (5,), "dropout": 0.0},
    "masknet": {"width": 4, "block_units": (5, 3), "mlp_units": (7,)},
    "finalmlp": {
        "width": 4,
        "first_units": (6,),
        "second_units": (10, 4),
        "num_heads": 2,
        "feature_gates": {"first": ("user",), "second": ("item", "price"), "units": (3,)},
    },
    "finalnet": {
        "width": 4,
        "first_units": (6, 4),
        "second_units": (10,),
        "field_gate": True,
    },
}
DIFFERENT = ("attention_ranker", "dien")  # in their losses or terms
ORDERED = ("aitm", "esmm")  # no purchase without a click


@functools.cache
def make(name: str) -> RankingModel:
    return models.get(name)(SCHEMA, **SMALL[name])


def inputs(seed: int = 0, batch: int = B, candidates: int = T) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def ids(name: str, *shape: int) -> np.ndarray:
        return rng.integers(0, SCHEMA[name].size, shape).astype("int32")

    seen, how = ids("items_seen", batch, S), ids("how", batch, S)
    ages = 2 + np.cumsum(rng.choice([60, 7200], (batch, S)), axis=1)[:, ::-1]
    return {
        "user": ids("user", batch),
        "age": rng.normal(size=batch).astype("float32"),
        "item": ids("item", batch, candidates),
        "tags": ids("tags", batch, candidates, 2),
        "price": rng.normal(size=(batch, candidates)).astype("float32"),
        "items_seen": seen,
        "how": how,
        "ages": np.where((seen == 0) & (how == 0), 0, ages).astype("int32"),
    }


def scores(model: RankingModel, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = model.probabilities(values)
    return {task: keras.ops.convert_to_numpy(score) for task, score in found.items()}


def assert_same(found: dict[str, np.ndarray], expected: Any, **tolerance: Any) -> None:
    assert found.keys() == expected.keys()
    for task, value in expected.items():
        np.testing.assert_allclose(found[task], value, atol=1e-6, **tolerance)
