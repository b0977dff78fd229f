"""Gates: weights for heads, (B, T, N, V) -> (B, T, N, V)."""

from recsys_attn.attention.gates.base import GATES as _GATES
from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.attention.gates.output import OutputGate
from recsys_attn.serialization import deserialize, serialize

get = _GATES.get

__all__ = ["HardConcrete", "OutputGate", "deserialize", "get", "serialize"]
