"""Interactions of fields, target attention and experts, for the shared checks."""

from __future__ import annotations

from recsys_attn.interactions import (
    AttentionalPairs,
    AutoInt,
    CompressedInteraction,
    CrossNetwork,
    FactorizationMachine,
    InteractingLayer,
    PairProducts,
    TargetAttention,
)
from recsys_attn.multitask import (
    AdaptiveTransfer,
    AttentionGate,
    Experts,
    GatedTowers,
    InputGate,
    MMoE,
    OrderPenalty,
    ProbabilityChain,
    ProgressiveExperts,
    TaskEmbeddingExperts,
)
from recsys_attn.serialization import serialize
from tests.support.layer_case import LayerCase

TARGET = {
    "inputs": {"query": "BTE", "history": "BSE"},
    "masks": {"history_mask": "BS", "query_mask": "BT"},
    "hides": {"history_mask": "history", "query_mask": "query"},
    "zeros": ("history_mask", "query_mask"),
}
FIELDS = {
    "inputs": {"inputs": "BTFE"},
    "masks": {"field_mask": "BTF"},
    "hides": {"field_mask": "inputs"},
    "zeros": ("field_mask",),
}
ROWS = {"inputs": {"inputs": "BE"}}
HARD_CONCRETE = {"class_name": "hard_concrete", "config": {"penalty": 0.1}}
SMALL = {"num_heads": 2, "head_dim": 3}

INTERACTION_CASES: dict[str, LayerCase] = {
    "interacting_layer": LayerCase(InteractingLayer, SMALL, **FIELDS),
    "interacting_layer_small_values": LayerCase(
        InteractingLayer, {"num_heads": 2, "head_dim": [4, 3]}, **FIELDS
    ),
    "autoint": LayerCase(
        AutoInt,
        {"num_layers": 2, "mechanism": "talking_heads", "gate": HARD_CONCRETE, **SMALL},
        **FIELDS,
    ),
    "target_attention": LayerCase(TargetAttention, {}, **TARGET),
    "target_attention_heads": LayerCase(
        TargetAttention, {"mechanism": "alibi", "num_heads": 2, "head_dim": 3}, **TARGET
    ),
    "target_attention_gated": LayerCase(
        TargetAttention, {"num_heads": 2, "head_dim": 3, "gate": HARD_CONCRETE}, **TARGET
    ),
    "experts": LayerCase(Experts, {"num_experts": 3, "units": (5, 4)}, **ROWS, batched=False),
    "gated_experts": LayerCase(
        Experts,
        {
            "num_experts": 3,
            "units": (5, 4),
            "gate": HARD_CONCRETE,
            "disagreement": {"outputs": 0.1},
        },
        **ROWS,
        batched=False,
    ),
    "mmoe_gated": LayerCase(
        MMoE,
        {
            "num_tasks": 2,
            "gate": "both",
            "experts": serialize(Experts(3, (5, 4), gate=HARD_CONCRETE, name="experts")),
        },
    ),
    "progressive_experts": LayerCase(
        ProgressiveExperts, {"num_tasks": 2, "task_experts": 2, "expert_units": (5, 4)}
    ),
    "adaptive_transfer": LayerCase(AdaptiveTransfer, {"num_tasks": 3, "units": (5, 4)}),
    "gated_towers": LayerCase(
        GatedTowers, {"num_tasks": 2, "units": (5, 4), "condition_size": 6, "gate_units": 3}
    ),
    "task_embedding_experts": LayerCase(
        TaskEmbeddingExperts,
        {"num_tasks": 1, "shared_experts": 3, "expert_units": (5, 4), "gate_units": (3,)},
        {"inputs": "BTN"},
    ),
    "probability_chain": LayerCase(ProbabilityChain, {}, {"logits": "BTN"}),
    "order_penalty": LayerCase(OrderPenalty, {"weight": 0.5}, {"logits": "BTN"}),
    "input_gate": LayerCase(InputGate, {"num_tasks": 2, "num_experts": 3}, **ROWS),
    "attention_gate": LayerCase(AttentionGate, {"num_tasks": 2}, {"experts": "BSE"}),
    **{
        f"mmoe_{gate}": LayerCase(
            MMoE,
            {"num_tasks": 2, "num_experts": 3, "expert_units": (5, 4), "gate": gate},
        )
        for gate in ("softmax", "attention", "both")
    },
    "factorization_machine": LayerCase(FactorizationMachine, {}, {"inputs": "BTNE"}),
    "pair_products": LayerCase(PairProducts, {"by_channel": True}, {"inputs": "BTHE"}),
    "attentional_pairs": LayerCase(
        AttentionalPairs, {}, {"inputs": "BTHN"}, {"present": "BTH"}, {"present": "inputs"}
    ),
    "cross_network": LayerCase(CrossNetwork, {"rank": 2, "num_experts": 3}),
    "gated_cross_network": LayerCase(CrossNetwork, {"gated": True}),
    "compressed_interaction": LayerCase(
        CompressedInteraction, {"units": (3, 2)}, {"inputs": "BTHN"}
    ),
}
