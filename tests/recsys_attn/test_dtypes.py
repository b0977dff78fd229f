"""Attention runs in any float policy, and with no events at all."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, presets
from recsys_attn.interactions import TargetAttention
from tests.support.layer_case import tensorflow

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
LENGTHS = {name: {"length": 8} for name in ("linformer", "synthesizer")}


def part(preset: str) -> dict[str, Any]:
    if preset == "sinkhorn":
        router = {"class_name": "sinkhorn", "config": {"size": 4, "length": 8}}
        return {"class_name": "routed", "config": {"router": router}}
    if preset == "capped":
        score = {"class_name": "temperature", "config": {"score": "qk_norm"}}
        capped = {"class_name": "soft_cap", "config": {"score": score}}
        config = {"score": capped, "weighting": "attention_sink"}
        return {"class_name": "dense", "config": config}
    return {"class_name": preset, "config": LENGTHS.get(preset, {})}


# All compositions run in mixed_bfloat16.
NAMES = [*sorted(presets.PRESETS), "capped"]
POLICIES = [(name, policy) for name in NAMES for policy in ("float16", "float64")]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("preset", "policy"), [*POLICIES, ("transformer", "mixed_float16")])
def test_outputs_are_finite_and_of_the_policys_type(preset: str, policy: str) -> None:
    tensorflow()  # JAX has no float64 unless told so
    layer = MultiHeadAttention(2, 4, part(preset), gate="hard_concrete", dtype=policy)
    output = layer(X, training=True)
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    assert np.isfinite(keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("preset", NAMES)
def test_no_events_and_no_requests_are_taken(preset: str) -> None:
    tensorflow()  # other backends have no graphs of unknown sizes, where this happens
    layer = MultiHeadAttention(2, 4, part(preset))
    layer(X)
    assert layer(X[:, :0]).shape == (2, 0, 8)
    assert layer(X[:0], training=True).shape == (0, 5, 8)
    target = TargetAttention(part(preset))
    target(X[:, :3], X)
    output = target(X[:, :3], X[:, :0], history_mask=np.zeros((2, 0), bool))
    np.testing.assert_array_equal(output, np.zeros((2, 3, 8)))
    assert target(X[:0, :3], X[:0], training=True).shape == (0, 3, 8)
