"""Models of papers; each function returns a `RankingModel` for a fitted schema.

Options that belong together are a table, such as `encoder`, whose key `name` may stand alone. A
wrong option, and a feature without `size`, is a ValueError.

Example:

>>> import numpy as np
>>> from recsys_attn import models
>>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
>>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
>>> schema = Schema((item, seen), (Task("click"),))
>>> encoder = {"name": "linear_transformer", "num_layers": 2}
>>> model = models.din(schema, width=4, target_attention="transformer", encoder=encoder)
>>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
>>> tuple(logits["click"].shape)
(1, 3)
"""

from recsys_attn.models.aitm import aitm
from recsys_attn.models.attention_ranker import attention_ranker
from recsys_attn.models.autoint import autoint
from recsys_attn.models.baselines import logistic_regression, mlp
from recsys_attn.models.bst import bst
from recsys_attn.models.dcn import dcn
from recsys_attn.models.destine import destine
from recsys_attn.models.dien import dien
from recsys_attn.models.din import din
from recsys_attn.models.dsin import dsin
from recsys_attn.models.ensemble import ensemble
from recsys_attn.models.esmm import esmm
from recsys_attn.models.eulernet import eulernet
from recsys_attn.models.factorization import afm, deepfm, fm, wide_and_deep, xdeepfm
from recsys_attn.models.fibinet import fibinet
from recsys_attn.models.finalmlp import finalmlp
from recsys_attn.models.finalnet import finalnet
from recsys_attn.models.han import han
from recsys_attn.models.masknet import masknet
from recsys_attn.models.mmoe import mmoe
from recsys_attn.models.pepnet import pepnet
from recsys_attn.models.ple import ple
from recsys_attn.models.pruning import prune
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS, get
from recsys_attn.models.sequence_model import SequenceModel
from recsys_attn.models.sequence_models import (
    bert4rec,
    esasrec,
    hstu,
    sasrec,
    sequence_encoder,
    xlnet,
)
from recsys_attn.models.sequence_parts import SEQUENCE_MODELS, get_sequence_model
from recsys_attn.models.stem import stem
from recsys_attn.models.tables import with_tables

__all__ = [
    "MODELS",
    "SEQUENCE_MODELS",
    "RankingModel",
    "SequenceModel",
    "afm",
    "aitm",
    "attention_ranker",
    "autoint",
    "bert4rec",
    "bst",
    "dcn",
    "deepfm",
    "destine",
    "dien",
    "din",
    "dsin",
    "ensemble",
    "esasrec",
    "esmm",
    "eulernet",
    "fibinet",
    "finalmlp",
    "finalnet",
    "fm",
    "get",
    "get_sequence_model",
    "han",
    "hstu",
    "logistic_regression",
    "masknet",
    "mlp",
    "mmoe",
    "pepnet",
    "ple",
    "prune",
    "sasrec",
    "sequence_encoder",
    "stem",
    "wide_and_deep",
    "with_tables",
    "xdeepfm",
    "xlnet",
]
