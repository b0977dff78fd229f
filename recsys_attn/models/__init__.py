"""Models of papers; each function returns a `RankingModel` for a fitted schema."""

from recsys_attn.models.attention_ranker import attention_ranker
from recsys_attn.models.autoint import autoint
from recsys_attn.models.baselines import logistic_regression, mlp
from recsys_attn.models.din import din
from recsys_attn.models.han import han
from recsys_attn.models.mmoe import mmoe
from recsys_attn.models.pruning import prune
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS, get

__all__ = [
    "MODELS",
    "RankingModel",
    "attention_ranker",
    "autoint",
    "din",
    "get",
    "han",
    "logistic_regression",
    "mlp",
    "mmoe",
    "prune",
]
