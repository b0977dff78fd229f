"""How much does a key count? Layers from logits and `allowed` to weights (B, N, T, S)."""

from recsys_attn.attention.weightings.base import Weighting
from recsys_attn.attention.weightings.identity import Identity
from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family("a weighting", {"identity": Identity, "softmax": Softmax}).get

__all__ = ["Identity", "Softmax", "Weighting", "deserialize", "get", "serialize"]
