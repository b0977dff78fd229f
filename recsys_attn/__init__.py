"""Attention for recommenders: Keras 3 layers and ranking models."""

from recsys_attn.id_transforms import Age, Hash, Quantile, Vocabulary
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

__all__ = [
    "Age",
    "Categorical",
    "Hash",
    "Numeric",
    "Quantile",
    "Schema",
    "Sequence",
    "Task",
    "Vocabulary",
]
