"""Interactions of fields, target attention and experts, for the shared checks."""

from __future__ import annotations

from recsys_attn.interactions import (
    AttentionalPairs,
    AutoInt,
    BilinearFusion,
    BilinearInteraction,
    CompressedInteraction,
    ContextGate,
    CrossFieldGate,
    CrossNetwork,
    EulerInteraction,
    FactorizationMachine,
    InteractingLayer,
    MaskBlock,
    MaskNetwork,
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
MASKED = {
    "inputs": {"inputs": "BTHN"},
    "masks": {"present": "BTH"},
    "hides": {"present": "inputs"},
}
ROWS = {"inputs": {"inputs": "BE"}}
HARD_CONCRETE = {"class_name": "hard_concrete", "config": {"penalty": 0.1}}
SMALL = {"num_heads": 2, "head_dim": 3}

INTERACTION_CASES: dict[str, LayerCase] = {
    "interacting_layer": LayerCase(InteractingLayer, SMALL, **FIELDS),
    "interacting_layer_small_values": LayerCase(
        InteractingLayer, {"num_heads": 2, "head_dim": [4, 3]}, **FIELDS
    ),
    "interacting_layer_of_the_authors": LayerCase(
        InteractingLayer, {"update": {"relu": "projections", "norm": "layer"}, **SMALL}, **FIELDS
    ),
    "disentangled_fields": LayerCase(
        InteractingLayer,
        {"mechanism": "disentangled", "update": {"residual": "identity", "relu": "none"}, **SMALL},
        **FIELDS,
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
    "adaptive_transfer": LayerCase(AdaptiveTransfer, {"num_tasks": 2, "units": (4,)}),
    "gated_towers": LayerCase(
        GatedTowers, {"num_tasks": 2, "units": (4,), "condition_size": 6, "gate_units": 3}
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
    "euler": LayerCase(EulerInteraction, {"orders": (3, 2)}, {"inputs": "BTNH"}),
    "cross_network": LayerCase(CrossNetwork, {"rank": 2, "num_experts": 3}),
    "gated_cross_network": LayerCase(CrossNetwork, {"gated": True}),
    "compressed_interaction": LayerCase(
        CompressedInteraction, {"units": (3, 2)}, {"inputs": "BTHN"}
    ),
    "bilinear_interaction": LayerCase(BilinearInteraction, {"kind": "each"}, {"inputs": "BTHN"}),
    "bilinear_fusion": LayerCase(BilinearFusion, {"sizes": (4, 7), "units": 3}, {"inputs": "BTH"}),
    "context_gate": LayerCase(ContextGate, {"context": (4, 1), "units": (3,)}, {"inputs": "BTHN"}),
    "cross_field_gate": LayerCase(CrossFieldGate, {}, {"inputs": "BTHN"}),
    "mask_block": LayerCase(
        MaskBlock, {"units": 4, "norm": "none"}, {"inputs": "BTV", "embeddings": "BTH"}
    ),
    "mask_network": LayerCase(
        MaskNetwork, {"units": (5, 3), "structure": "serial", "norm": "batch"}, **MASKED
    ),
}
