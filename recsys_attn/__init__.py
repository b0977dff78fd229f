"""Attention for recommenders: Keras 3 layers and ranking models.

Importing it takes no Keras; what needs it is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recsys_attn.id_transforms import Age, Hash, Quantile, Vocabulary
from recsys_attn.lazy import lazy_names as _lazy_names
from recsys_attn.registered import register_names as _register_names
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

if TYPE_CHECKING:
    from recsys_attn import attention, blocks, interactions, models, multitask, objectives
    from recsys_attn.attention import MultiHeadAttention
    from recsys_attn.embeddings import FeatureEmbedding
    from recsys_attn.interactions import AutoInt, TargetAttention
    from recsys_attn.multitask import MMoE

__all__ = [
    "Age",
    "AutoInt",
    "Categorical",
    "FeatureEmbedding",
    "Hash",
    "MMoE",
    "MultiHeadAttention",
    "Numeric",
    "Quantile",
    "Schema",
    "Sequence",
    "TargetAttention",
    "Task",
    "Vocabulary",
    "attention",
    "blocks",
    "interactions",
    "models",
    "multitask",
    "objectives",
]

_MODULES = {
    "AutoInt": "interactions",
    "FeatureEmbedding": "embeddings",
    "MMoE": "multitask",
    "MultiHeadAttention": "attention",
    "TargetAttention": "interactions",
    **dict.fromkeys(
        ("attention", "blocks", "interactions", "models", "multitask", "objectives"), ""
    ),
}
_HERE = ["Age", "Categorical", "Hash", "Numeric", "Quantile", "Schema", "Sequence", "Task"]

__getattr__, __dir__ = _lazy_names(__name__, _MODULES, [*_HERE, "Vocabulary"])

_register_names()
