"""How similar is a query to a key? Layers (B, T, N, H), (B, S, N, H) -> logits (B, N, T, S)."""

from functools import partial as _partial

from recsys_attn.attention.scores.additive import Additive
from recsys_attn.attention.scores.base import Score
from recsys_attn.attention.scores.cosine import Cosine
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.attention.scores.general import General
from recsys_attn.attention.scores.mlp import Mlp
from recsys_attn.attention.scores.sum import Sum
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family(
    "a score",
    {
        "additive": Additive,
        "cosine": Cosine,
        "dot": Dot,
        "general": General,
        "mlp": Mlp,
        "scaled_dot": _partial(Dot, scale=True),
    },
).get

__all__ = [
    "Additive",
    "Cosine",
    "Dot",
    "General",
    "Mlp",
    "Score",
    "Sum",
    "deserialize",
    "get",
    "serialize",
]
