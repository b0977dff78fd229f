"""Decays: the share of the past that is left after an event, for linear attention."""

from recsys_attn.attention.decays.base import DECAYS as _DECAYS
from recsys_attn.attention.decays.base import Decay
from recsys_attn.attention.decays.fixed import FixedDecay
from recsys_attn.attention.decays.forget_gate import ForgetGate
from recsys_attn.serialization import deserialize, serialize

get = _DECAYS.get

__all__ = ["Decay", "FixedDecay", "ForgetGate", "deserialize", "get", "serialize"]
