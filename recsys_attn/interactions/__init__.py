"""Interactions of features: fields with fields, candidates with histories."""

from recsys_attn.interactions.attentional_pairs import AttentionalPairs
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.interactions.bilinear import BilinearFusion, BilinearInteraction
from recsys_attn.interactions.compressed_interaction import CompressedInteraction
from recsys_attn.interactions.cross_network import CrossNetwork
from recsys_attn.interactions.euler import EulerInteraction
from recsys_attn.interactions.factorization_machine import FactorizationMachine, PairProducts
from recsys_attn.interactions.feature_gates import ContextGate, CrossFieldGate
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.interactions.interacting_layer import InteractingLayer
from recsys_attn.interactions.mask_network import MaskBlock, MaskNetwork
from recsys_attn.interactions.target_attention import TargetAttention

__all__ = [
    "AttentionalPairs",
    "AutoInt",
    "BilinearFusion",
    "BilinearInteraction",
    "CompressedInteraction",
    "ContextGate",
    "CrossFieldGate",
    "CrossNetwork",
    "EulerInteraction",
    "FactorizationMachine",
    "FieldUpdate",
    "InteractingLayer",
    "MaskBlock",
    "MaskNetwork",
    "PairProducts",
    "TargetAttention",
]
