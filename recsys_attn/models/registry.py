"""The models by name."""

from __future__ import annotations

from collections.abc import Callable

from recsys_attn.checks import unknown_name
from recsys_attn.model_names import OTHER_NAMES
from recsys_attn.models.ranking import RankingModel
from recsys_attn.options import CheckedFunctions

MODELS: CheckedFunctions[Callable[..., RankingModel]] = CheckedFunctions("model")


def get(name: str) -> Callable[..., RankingModel]:
    """Returns the function of a model.

    Raises:
        ValueError: No model has this name.

    >>> from recsys_attn import models
    >>> models.get("autoint").__name__
    'autoint'
    """
    if name in MODELS:
        return MODELS[name]
    if other := OTHER_NAMES.get(name):
        raise ValueError(f"`name` must be the name of a model: use {other}. Received: {name!r}")
    raise ValueError(f"`name` must be the name of a model. {unknown_name(name, MODELS)}")
