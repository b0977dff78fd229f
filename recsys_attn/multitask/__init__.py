"""Multi-task learning: experts shared by tasks, and their gates."""

from recsys_attn.multitask.balance import Balance
from recsys_attn.multitask.experts import Experts
from recsys_attn.multitask.gates import AttentionGate, InputGate
from recsys_attn.multitask.mmoe import MMoE
from recsys_attn.multitask.progressive import ProgressiveExperts

__all__ = ["AttentionGate", "Balance", "Experts", "InputGate", "MMoE", "ProgressiveExperts"]
