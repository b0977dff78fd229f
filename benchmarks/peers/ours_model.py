"""Our schema and models at the benchmark's settings, on whatever backend Keras runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.peers import settings as sizes
from benchmarks.peers.data import Batch
from benchmarks.peers.settings import FIELDS, HISTORY, Settings
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
    make, options = _model(settings.model)
    return make(schema, **options)


def _model(name: str) -> tuple[Callable[..., RankingModel], dict[str, Any]]:
    """Its function and its options."""
    fields = {"width": sizes.WIDTH}
    deep = {**fields, "mlp_units": sizes.DEEP_UNITS}
    history = {"width": sizes.HISTORY_WIDTH, "mlp_units": sizes.MLP_UNITS}
    towers = {**fields, "tower_units": sizes.TOWER_UNITS}
    shared = {"number": sizes.EXPERTS, "units": sizes.EXPERT_UNITS}
    heads = {"num_layers": sizes.LAYERS, "num_heads": sizes.HEADS}
    # Self-attention, and then the target's by dot products; without positions, as the peers'.
    encoder = {"encoder": {"name": "transformer", "positions": "none"}}
    layers = {
        "num_layers": sizes.EXPERT_LAYERS,
        "task": sizes.TASK_EXPERTS,
        "shared": sizes.SHARED_EXPERTS,
        "units": sizes.EXPERT_UNITS,
    }
    cross = {"cross": {"num_layers": sizes.CROSS_LAYERS}, "structure": "parallel"}

    def autoint(name: str) -> dict[str, Any]:
        return {**fields, "interaction": {**heads, "head_dim": sizes.HEAD_DIMS[name]}}

    known: dict[str, tuple[Callable[..., RankingModel], dict[str, Any]]] = {
        "autoint": (models.autoint, autoint("autoint")),
        "autoint8": (models.autoint, autoint("autoint8")),
        "dcnv2": (models.dcn, {**deep, **cross}),
        "deepfm": (models.deepfm, {**deep, "dropout": 0.0}),
        "din": (models.din, history),
        "din_encoded": (models.din, {**history, **encoder, "target_attention": "transformer"}),
        "dien": (models.dien, {**history, "auxiliary_weight": 0}),
        "mmoe": (models.mmoe, {**towers, "experts": shared}),
        "ple": (models.ple, {**towers, "experts": layers}),
    }
    return known[name]


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
