"""Every layer of attention, blocks, interactions and multitask passes the shared checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from recsys_attn.attention import Attention, Dense, scores, weightings
from recsys_attn.blocks import Dice, Mlp
from recsys_attn.interactions import AutoInt, InteractingLayer, TargetAttention
from recsys_attn.multitask import AttentionGate, Experts, InputGate, MMoE
from tests.support.layer_case import LayerCase
from tests.support.layer_checks import CHECKS

PER_HEAD = {"query": "BTNH", "key": "BSNH"}
VALUES = {**PER_HEAD, "value": "BSNV"}
ALLOWED = {"allowed": "BNTS"}
LOGITS = {
    "inputs": {"logits": "BNTS"},
    "masks": ALLOWED,
    "hides": {"allowed": "logits"},
    "zeros": ("allowed",),
}
ATTENTION_MASKS = {
    "query_mask": "BT",
    "value_mask": "BS",
    "key_mask": "BS",
    "attention_mask": "BTS",
}
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
SMALL = {"num_heads": 2, "head_dim": 3}

CASES = {
    "dot": LayerCase(scores.Dot, {}, PER_HEAD, ALLOWED),
    "scaled_dot": LayerCase(scores.Dot, {"scale": True}, PER_HEAD, ALLOWED),
    "general": LayerCase(scores.General, {}, {"query": "BTNH", "key": "BSNV"}, ALLOWED),
    "additive": LayerCase(scores.Additive, {"units": 4}, {"query": "BTNH", "key": "BSNV"}, ALLOWED),
    "cosine": LayerCase(scores.Cosine, {"temperature": 0.2}, PER_HEAD, ALLOWED),
    "mlp_score": LayerCase(scores.Mlp, {"units": (4, 3)}, PER_HEAD, ALLOWED),
    "softmax": LayerCase(weightings.Softmax, **LOGITS),
    "identity": LayerCase(weightings.Identity, **LOGITS),
    "dense": LayerCase(
        Dense,
        {"score": "additive"},
        VALUES,
        {"query_mask": "BT", "key_mask": "BS", "attention_mask": "BNTS"},
        {"key_mask": ("key", "value"), "query_mask": "query"},
        ("query_mask", "key_mask", "attention_mask"),
    ),
    "attention": LayerCase(
        Attention,
        {"mechanism": {"class_name": "dense", "config": {"score": "general"}}},
        {"query": "BTE", "value": "BSV", "key": "BSH"},
        ATTENTION_MASKS,
        {"key_mask": ("key", "value"), "query_mask": "query"},
        tuple(ATTENTION_MASKS),
    ),
    "dice": LayerCase(Dice, {}, masks={"where": "BT"}),
    "mlp": LayerCase(Mlp, {"units": (5, 3), "activation": "dice"}, masks={"where": "BT"}),
    "interacting_layer": LayerCase(InteractingLayer, SMALL, **FIELDS),
    "autoint": LayerCase(AutoInt, {"num_layers": 2, "scale": True, **SMALL}, **FIELDS),
    "target_attention": LayerCase(TargetAttention, {}, **TARGET),
    "target_attention_softmax": LayerCase(
        TargetAttention, {"score": "cosine", "weighting": "softmax"}, **TARGET
    ),
    "experts": LayerCase(Experts, {"num_experts": 3, "units": (5, 4)}, **ROWS, batched=False),
    "input_gate": LayerCase(InputGate, {"num_tasks": 2, "num_experts": 3}, **ROWS),
    "attention_gate": LayerCase(AttentionGate, {"num_tasks": 2}, {"experts": "NBE"}, batched=False),
    **{
        f"mmoe_{gate}": LayerCase(
            MMoE,
            {"num_tasks": 2, "num_experts": 3, "expert_units": (5, 4), "gate": gate},
        )
        for gate in ("softmax", "attention", "both")
    },
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_layer(case: LayerCase, check: Callable[[LayerCase, Path], None], tmp_path: Path) -> None:
    check(case, tmp_path)


def test_every_exported_layer_has_a_case() -> None:
    from recsys_attn import attention, blocks, interactions, multitask

    exported = {
        getattr(module, name)
        for module in (attention, scores, weightings, blocks, interactions, multitask)
        for name in module.__all__
    }
    layers = {
        item for item in exported if isinstance(item, type) and issubclass(item, keras.layers.Layer)
    }
    assert layers - {case.layer for case in CASES.values()} == {scores.Score}
