"""Interactions of features: fields with fields, candidates with histories."""

from recsys_attn.interactions.autoint import AutoInt, InteractingLayer
from recsys_attn.interactions.target_attention import TargetAttention

__all__ = ["AutoInt", "InteractingLayer", "TargetAttention"]
