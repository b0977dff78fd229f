"""Gates: weights for heads, (B, T, N, V) -> (B, T, N, V)."""

from recsys_attn.attention.gates.base import GATES
from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.attention.gates.output import OutputGate
from recsys_attn.serialization import deserialize, serialize

get = GATES.get

__all__ = ["GATES", "HardConcrete", "OutputGate", "deserialize", "get", "serialize"]
