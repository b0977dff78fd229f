"""Routers: group queries with the few keys that they attend."""

from recsys_attn.attention.routers.base import ROUTERS as _ROUTERS
from recsys_attn.attention.routers.base import Router
from recsys_attn.attention.routers.blocks import Blocks
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.k_means import KMeans
from recsys_attn.attention.routers.lsh import Lsh
from recsys_attn.attention.routers.sinkhorn import Sinkhorn
from recsys_attn.serialization import deserialize, serialize

get = _ROUTERS.get

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
