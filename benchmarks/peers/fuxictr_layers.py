"""FuxiCTR's layers, and tables of its `FeatureEmbedding`.

They import the preparation of data, which needs Ray, for pretrained tables alone.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch

from benchmarks.peers.settings import FIELDS, WIDTH, Settings
from benchmarks.peers.torch_loop import pretend

pretend("fuxictr.preprocess", "fuxictr.preprocess.tokenizer")
vars(sys.modules["fuxictr.preprocess.tokenizer"])["load_pretrain_emb"] = None

from fuxictr.pytorch.layers import (
    CrossNetV2,
    DIN_Attention,
    FactorizationMachine,
    FeatureEmbedding,
    MLP_Block,
    ScaledDotProductAttention,
)

__all__ = [
    "CrossNetV2",
    "DIN_Attention",
    "FactorizationMachine",
    "Ids",
    "MLP_Block",
    "ScaledDotProductAttention",
    "embedding",
    "embedding_of_fields",
    "feature_map",
    "fields",
]

Ids = dict[str, torch.Tensor]


def fields(settings: Settings) -> dict[str, int]:
    """The rows of each field's table."""
    return {f"c{i}": settings.table_rows for i in range(FIELDS)}


def feature_map(rows: dict[str, int]) -> SimpleNamespace:
    """What the layers read of a `FeatureMap`; a history shares the items' table."""
    features = {
        name: {"type": "categorical", "source": "", "vocab_size": size}
        for name, size in rows.items()
    }
    if "item" in features:
        features["seen"] = {"type": "sequence", "source": "", "share_embedding": "item"}
    return SimpleNamespace(features=features, num_fields=len(features))


def embedding(rows: dict[str, int], width: int) -> FeatureEmbedding:
    """A table for each feature."""
    return FeatureEmbedding(feature_map(rows), width)


def embedding_of_fields(settings: Settings) -> FeatureEmbedding:
    """A table for each field."""
    return embedding(fields(settings), WIDTH)
