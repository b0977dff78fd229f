"""Attention for recommenders: Keras 3 layers and ranking models.

Importing it takes no Keras; what needs it is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recsys_attn.id_transforms import Age, Hash, Quantile, Vocabulary
from recsys_attn.registered import register_names as _register_names
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

if TYPE_CHECKING:
    from recsys_attn import attention, interactions, models, multitask
    from recsys_attn.attention import MultiHeadAttention
    from recsys_attn.interactions import AutoInt, TargetAttention
    from recsys_attn.multitask import MMoE

__all__ = [
    "Age",
    "AutoInt",
    "Categorical",
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
    "interactions",
    "models",
    "multitask",
]

_LAYERS = {
    "AutoInt": "interactions",
    "MMoE": "multitask",
    "MultiHeadAttention": "attention",
    "TargetAttention": "interactions",
}


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        return getattr(import_module(f"{__name__}.{_LAYERS[name]}"), name)
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_register_names()
