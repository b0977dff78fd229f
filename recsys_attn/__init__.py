"""Attention for recommenders: Keras 3 layers and ranking models."""

from recsys_attn.schema import (
    Categorical,
    Hash,
    Numeric,
    Quantile,
    Schema,
    Sequence,
    Task,
    Vocabulary,
)

__all__ = [
    "Categorical",
    "Hash",
    "Numeric",
    "Quantile",
    "Schema",
    "Sequence",
    "Task",
    "Vocabulary",
]
