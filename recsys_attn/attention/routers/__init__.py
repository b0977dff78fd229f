"""Who meets whom? Layers that take a sequence apart into groups and put outputs together."""

from recsys_attn.attention.routers.base import Groups, Router
from recsys_attn.attention.routers.blocks import Blocks
from recsys_attn.attention.routers.k_means import KMeans
from recsys_attn.attention.routers.lsh import Lsh
from recsys_attn.attention.routers.sinkhorn import Sinkhorn
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family(
    "a router",
    {"blocks": Blocks, "k_means": KMeans, "lsh": Lsh, "sinkhorn": Sinkhorn},
    Router,
).get

__all__ = [
    "Blocks",
    "Groups",
    "KMeans",
    "Lsh",
    "Router",
    "Sinkhorn",
    "deserialize",
    "get",
    "serialize",
]
