"""Feature maps: from queries and keys to features (B, N, T or S, M)."""

from recsys_attn.attention.feature_maps.base import FEATURE_MAPS as _FEATURE_MAPS
from recsys_attn.attention.feature_maps.base import FeatureMap
from recsys_attn.attention.feature_maps.elu import Elu
from recsys_attn.attention.feature_maps.favor import Favor
from recsys_attn.attention.feature_maps.fourier import Fourier
from recsys_attn.attention.feature_maps.random_features import RandomFeatures
from recsys_attn.attention.feature_maps.softmax import Softmax
from recsys_attn.attention.feature_maps.taylor import Taylor
from recsys_attn.serialization import deserialize, serialize

get = _FEATURE_MAPS.get

__all__ = [
    "Elu",
    "Favor",
    "FeatureMap",
    "Fourier",
    "RandomFeatures",
    "Softmax",
    "Taylor",
    "deserialize",
    "get",
    "serialize",
]
