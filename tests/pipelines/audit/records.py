"""Attention with known properties."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.audit.head_statistics import HeadStatistics, HeadTotals
from pipelines.audit.recorder import AttentionRecord
from recsys_attn.models.attention_places import AttentionPlace

ENCODER = AttentionPlace("encoder", "history")
TARGET = AttentionPlace("target_attention", "history")


def record(place: AttentionPlace, weights: Any, keys: Any = None, **given: Any) -> AttentionRecord:
    """The attention of some weights (B, N, T, S), with all keys by default."""
    weights = np.asarray(weights, np.float32)
    entries, heads, queries, length = weights.shape
    keys = np.ones((entries, length), bool) if keys is None else np.asarray(keys, bool)
    fields = {
        "output": np.zeros((entries, queries, heads, 2), np.float32),
        "value": np.zeros((entries, length, heads, 2), np.float32),
        "queries": keys if place.kind == "encoder" else np.ones((entries, queries), bool),
        "requests": np.arange(entries),
        "relations": {},
    }
    return AttentionRecord(**{"place": place, "weights": weights, "keys": keys, **fields, **given})


def statistics(*records: AttentionRecord) -> list[HeadStatistics]:
    """The statistics of each head, every entry a cluster of its own."""
    totals = HeadTotals()
    for each in records:
        totals.add(each)
    return totals.heads(np.arange(1 + max(each.requests.max() for each in records)))


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
