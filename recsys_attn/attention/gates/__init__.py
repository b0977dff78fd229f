"""Which heads? Layers from the output of each head (B, T, N, V) to the same, gated."""

from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.attention.gates.output import OutputGate
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family("a gate", {"hard_concrete": HardConcrete, "output": OutputGate}).get

__all__ = ["HardConcrete", "OutputGate", "deserialize", "get", "serialize"]
