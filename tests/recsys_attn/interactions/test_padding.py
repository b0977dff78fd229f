"""Where padding stands changes no attention to a history: in front, between, behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import AttentionPooling, presets
from recsys_attn.interactions import TargetAttention
from tests.support.arrays import assert_close, normal
from tests.support.layer_case import randomise

B, T, S, E, COLUMNS = 2, 3, 7, 8, 11
SMALL = {
    "linformer": {"rank": 3, "length": COLUMNS},
    "location": {"score": {"class_name": "location", "config": {"length": COLUMNS}}},
    "performer": {"features": 8},
    "random_feature_attention": {"features": 8},
    "reformer": {"size": 4, "buckets": 2, "rounds": 1},
    "routing_transformer": {"clusters": 2, "window": 4},
    "sinkhorn": {"size": 4},
    "bigbird": {"size": 2, "count": 1},
    "local": {"window": 2},
    "longformer": {"window": 2},
    "memory_compressed": {"stride": 2},
    "sparse_transformer": {"stride": 2},
}
PLACES = {
    "in front": np.arange(4, 11),
    "between": np.array([0, 2, 3, 6, 7, 9, 10]),
    "behind": np.arange(7),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", [*presets.PRESETS, "location"])
@pytest.mark.parametrize("heads", [None, 2])
def test_padding_of_a_history_may_stand_anywhere(name: str, heads: int | None) -> None:
    of = {"class_name": "dense" if name == "location" else name, "config": SMALL.get(name, {})}
    size = None if heads is None else 4
    target = TargetAttention(presets.get(of), heads, size)
    pooling = AttentionPooling(presets.get(of), num_heads=heads, head_dim=size)
    query, events = normal((B, T, E), (B, S, E))
    found: dict[str, list[Any]] = {}
    for place, columns in PLACES.items():
        history = np.full((B, COLUMNS, E), 9.0, "float32")
        history[:, columns] = events
        mask = np.zeros((B, COLUMNS), bool)
        mask[:, columns] = True
        mask[1, columns[4:]] = False
        if not found:
            target(query, history, history_mask=mask)
            pooling(history, present=mask)
            randomise(target)
            randomise(pooling)
        output = target(query, history, history_mask=mask)
        found[place] = [output, pooling(history, present=mask)]
        if target.returns_weights:
            output, weights = target(query, history, history_mask=mask, return_weights=True)
            found[place] += [output, np.asarray(weights)[..., columns]]
    for place in ("in front", "between"):
        for one, other in zip(found[place], found["behind"], strict=True):
            assert_close(one, other)
