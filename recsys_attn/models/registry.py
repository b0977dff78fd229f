"""The models by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from recsys_attn.checks import unknown_name
from recsys_attn.models.ranking import RankingModel

MODELS: dict[str, Callable[..., RankingModel]] = {}
_Model = TypeVar("_Model", bound=Callable[..., RankingModel])


def register(function: _Model) -> _Model:
    """Enters the function of a model under its own name."""
    MODELS[function.__name__] = function
    return function


def get(name: str) -> Callable[..., RankingModel]:
    """Returns the function of a model.

    Raises:
        ValueError: No model has this name.

    >>> from recsys_attn import models
    >>> models.get("autoint").__name__
    'autoint'
    """
    if name not in MODELS:
        raise ValueError(f"`name` must be the name of a model. {unknown_name(name, MODELS)}")
    return MODELS[name]
