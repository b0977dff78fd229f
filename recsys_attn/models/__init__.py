"""One short function per paper; each returns a `RankingModel` for a fitted schema."""

from __future__ import annotations

from collections.abc import Callable

from recsys_attn.checks import unknown_name as _unknown_name
from recsys_attn.models.attention_ranker import attention_ranker
from recsys_attn.models.autoint import autoint
from recsys_attn.models.baselines import logistic_regression, mlp
from recsys_attn.models.din import din
from recsys_attn.models.mmoe import mmoe
from recsys_attn.models.ranking import RankingModel

MODELS: dict[str, Callable[..., RankingModel]] = {
    function.__name__: function
    for function in (attention_ranker, autoint, din, logistic_regression, mlp, mmoe)
}


def get(name: str) -> Callable[..., RankingModel]:
    """The function of a model's name.

    Raises:
        ValueError: No model has this name.

    >>> get("autoint").__name__
    'autoint'
    """
    if name not in MODELS:
        raise ValueError(f"`name` must be the name of a model. {_unknown_name(name, MODELS)}")
    return MODELS[name]


__all__ = [
    "MODELS",
    "RankingModel",
    "attention_ranker",
    "autoint",
    "din",
    "get",
    "logistic_regression",
    "mlp",
    "mmoe",
]
