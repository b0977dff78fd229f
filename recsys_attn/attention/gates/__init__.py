"""Which heads? Layers from the output of each head (B, T, N, V) to the same, gated."""

from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.attention.gates.output import OutputGate
from recsys_attn.serialization import Family as _Family
from recsys_attn.serialization import deserialize, serialize

get = _Family(
    "a gate",
    {"hard_concrete": HardConcrete, "output": OutputGate},
    call=("heads", "inputs"),
    hint="The heads are (B, T, N, V) and the inputs (B, T, E), what the queries were made of",
).get

__all__ = ["HardConcrete", "OutputGate", "deserialize", "get", "serialize"]
