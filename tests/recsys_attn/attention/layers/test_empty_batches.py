"""A batch without requests gives an output without requests, whatever attends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import AttentionPooling, MultiHeadAttention, presets
from recsys_attn.interactions import TargetAttention

T, S, E = 3, 11, 5
EVENTS, CANDIDATES = (np.ones((0, size, E), "float32") for size in (S, T))
PRESENT = np.ones((0, S), bool)
SMALL: dict[str, dict[str, Any]] = {
    "bigbird": {"size": 2, "count": 1},
    "din": {},
    "linear_transformer": {},
    "linformer": {"rank": 2},
    "local": {"window": 2},
    "longformer": {"window": 2},
    "memory_compressed": {},
    "performer": {"features": 4},
    "reformer": {"size": 3, "buckets": 2},
    "routing_transformer": {"clusters": 2, "window": 4},
    "sinkhorn": {"size": 4},
    "transformer": {},
}


@pytest.mark.parametrize("name", SMALL)
def test_no_requests_have_no_outputs(name: str) -> None:
    short = {"class_name": name, "config": SMALL[name]}
    masks = {"query_mask": PRESENT, "key_mask": PRESENT}
    output = MultiHeadAttention(2, 3, short)(EVENTS, **masks, training=True)
    assert output.shape == (0, S, E)
    output = TargetAttention(short)(CANDIDATES, EVENTS, history_mask=PRESENT, training=True)
    assert output.shape == (0, T, E)
    assert AttentionPooling(short, num_queries=2)(EVENTS, present=PRESENT).shape == (0, 2, E)


def test_a_step_without_requests_moves_no_centroid() -> None:
    layer = MultiHeadAttention(2, 3, presets.routing_transformer(2, 4))
    layer(np.ones((2, S, E), "float32"), training=True)
    (centroids,) = layer.mechanism.router.get_weights()
    layer(EVENTS, training=True)
    np.testing.assert_array_equal(layer.mechanism.router.get_weights()[0], centroids)
