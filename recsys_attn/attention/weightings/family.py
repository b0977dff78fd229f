"""The weightings by name."""

from __future__ import annotations

from functools import partial

from recsys_attn.attention.weightings.base import Weighting
from recsys_attn.attention.weightings.entmax import Entmax
from recsys_attn.attention.weightings.gaussian import Gaussian
from recsys_attn.attention.weightings.identity import Identity
from recsys_attn.attention.weightings.sigmoid import Sigmoid
from recsys_attn.attention.weightings.silu import Silu
from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.attention.weightings.talking_heads import TalkingHeads
from recsys_attn.attention.weightings.top_k import TopK
from recsys_attn.serialization import Family

get = Family(
    "a weighting",
    {
        "entmax": Entmax,
        "gaussian": Gaussian,
        "identity": Identity,
        "sigmoid": Sigmoid,
        "silu": Silu,
        "softmax": Softmax,
        "sparsemax": partial(Entmax, alpha=2.0),
        "talking_heads": TalkingHeads,
        "top_k": TopK,
    },
    Weighting,
).get
