"""Attention as parts that compose: a mechanism holds a score and a weighting."""

from recsys_attn.attention.attention import Attention
from recsys_attn.attention.mechanisms.dense import Dense

__all__ = ["Attention", "Dense"]
