"""Attention for recommenders: Keras 3 layers and ranking models."""

from recsys_attn.id_transforms import Hash, Quantile, Vocabulary
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

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
