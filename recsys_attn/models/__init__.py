"""Models of papers; each function returns a `RankingModel` for a fitted schema."""

from recsys_attn.models.attention_ranker import attention_ranker
from recsys_attn.models.autoint import autoint
from recsys_attn.models.baselines import logistic_regression, mlp
from recsys_attn.models.bst import bst
from recsys_attn.models.dcn import dcn
from recsys_attn.models.dien import dien
from recsys_attn.models.din import din
from recsys_attn.models.dsin import dsin
from recsys_attn.models.factorization import afm, deepfm, fm, wide_and_deep, xdeepfm
from recsys_attn.models.han import han
from recsys_attn.models.mmoe import mmoe
from recsys_attn.models.ple import ple
from recsys_attn.models.pruning import prune
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS, get

__all__ = [
    "MODELS",
    "RankingModel",
    "afm",
    "attention_ranker",
    "autoint",
    "bst",
    "dcn",
    "deepfm",
    "dien",
    "din",
    "dsin",
    "fm",
    "get",
    "han",
    "logistic_regression",
    "mlp",
    "mmoe",
    "ple",
    "prune",
    "wide_and_deep",
    "xdeepfm",
]
