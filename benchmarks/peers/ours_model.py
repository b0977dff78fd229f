"""Our schema and models at the benchmark's settings, on whatever backend Keras runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.data import Batch
from benchmarks.peers.settings import (
    EXPERT_UNITS,
    EXPERTS,
    FIELDS,
    HEAD_DIMS,
    HEADS,
    HISTORY,
    HISTORY_WIDTH,
    LAYERS,
    MLP_UNITS,
    TOWER_UNITS,
    WIDTH,
    Settings,
)
from recsys_attn import models
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK, Categorical, Feature, Schema, Sequence, Task


def make_schema(settings: Settings) -> Schema:
    """The features in the order of the data's columns."""
    size = settings.table_rows
    features: tuple[Feature, ...] = tuple(
        Categorical(f"c{i}", dtype="int64", size=size) for i in range(FIELDS)
    )
    if settings.has_history:
        features = (
            Categorical("user", "context", dtype="int64", size=size),
            Categorical("item", dtype="int64", size=size),
            Sequence("seen", shares="item", dtype="int64", max_length=HISTORY),
        )
    return Schema(features, tuple(Task(name) for name in settings.tasks))


def make_model(settings: Settings, schema: Schema) -> RankingModel:
    """The model with these features."""
    if settings.model in HEAD_DIMS:
        head_dim = HEAD_DIMS[settings.model]
        return models.autoint(
            schema, width=WIDTH, num_layers=LAYERS, num_heads=HEADS, head_dim=head_dim
        )
    if settings.model == "mmoe":
        return models.mmoe(
            schema,
            width=WIDTH,
            num_experts=EXPERTS,
            expert_units=EXPERT_UNITS,
            tower_units=TOWER_UNITS,
        )
    sizes: Any = {"width": HISTORY_WIDTH, "mlp_units": MLP_UNITS}
    if settings.model == "din_encoded":  # self-attention, and then the target's by dot products
        encoder: Any = {"encoder": "transformer", "encoder_positions": "none"}  # as the peers'
        return models.din(schema, **sizes, **encoder, target_attention="transformer")
    return models.din(schema, **sizes)


def blocks_of(batch: Batch) -> dict[str, np.ndarray]:
    """The arrays under the names that our training engine has for them."""
    blocks = {
        "candidate_ids": batch.candidate,
        "labels": batch.labels,
        CANDIDATE_MASK: np.ones(batch.candidate.shape[:2], bool),
    }
    return blocks if batch.context is None else {**blocks, "context_ids": batch.context}


def inputs_of(blocks: Mapping[str, Any]) -> dict[str, Any]:
    """A model's inputs by name, of arrays or tensors."""
    candidate, mask = blocks["candidate_ids"], {CANDIDATE_MASK: blocks[CANDIDATE_MASK]}
    if "context_ids" not in blocks:
        return mask | {f"c{i}": candidate[..., i] for i in range(FIELDS)}
    context = blocks["context_ids"]
    return mask | {"user": context[:, 0], "seen": context[:, 1:], "item": candidate[..., 0]}
