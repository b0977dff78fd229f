"""Multi-task learning: experts shared by tasks, their gates, and tasks in an order."""

from recsys_attn.multitask.balance import Balance
from recsys_attn.multitask.expert_gates import AttentionGate, InputGate
from recsys_attn.multitask.experts import Experts
from recsys_attn.multitask.gated_towers import GatedTowers
from recsys_attn.multitask.mmoe import MMoE
from recsys_attn.multitask.ordered import OrderPenalty, ProbabilityChain
from recsys_attn.multitask.progressive import ProgressiveExperts
from recsys_attn.multitask.task_embeddings import TaskEmbeddingExperts
from recsys_attn.multitask.transfer import AdaptiveTransfer

__all__ = [
    "AdaptiveTransfer",
    "AttentionGate",
    "Balance",
    "Experts",
    "GatedTowers",
    "InputGate",
    "MMoE",
    "OrderPenalty",
    "ProbabilityChain",
    "ProgressiveExperts",
    "TaskEmbeddingExperts",
]
