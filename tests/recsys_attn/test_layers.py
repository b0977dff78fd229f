"""Every layer of attention, blocks, interactions and multitask passes the shared checks."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from recsys_attn.attention import (
    Attention,
    AttentionPooling,
    Dense,
    MultiHeadAttention,
    PrependTokens,
    scores,
    weightings,
)
from recsys_attn.blocks import Dice, Mlp
from recsys_attn.interactions import AutoInt, InteractingLayer, TargetAttention
from recsys_attn.multitask import AttentionGate, Experts, InputGate, MMoE
from recsys_attn.serialization import serialize
from tests.support.compositions import COMPOSITIONS
from tests.support.layer_case import LayerCase, grouped
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
HARD_CONCRETE = {"class_name": "hard_concrete", "config": {"penalty": 0.1}}
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
    "attention_pooling": LayerCase(
        AttentionPooling,
        {"mechanism": "han"},
        masks={"present": "BT"},
        hides={"present": "inputs"},
        zeros=("present",),
    ),
    "latent_queries": LayerCase(
        AttentionPooling,
        {"mechanism": "transformer", "num_queries": 2, "num_heads": 2, "head_dim": 3},
        masks={"present": "BT"},
        hides={"present": "inputs"},
        zeros=("present",),
    ),
    "prepend_tokens": LayerCase(
        PrependTokens,
        {"count": 2, "attention": serialize(MultiHeadAttention(2, 3, name="heads"))},
        masks={"present": "BT"},
        hides={"present": "inputs"},
    ),
    "dice": LayerCase(Dice, {}, masks={"where": "BT"}),
    "mlp": LayerCase(Mlp, {"units": (5, 3), "activation": "dice"}, masks={"where": "BT"}),
    "interacting_layer": LayerCase(InteractingLayer, SMALL, **FIELDS),
    "autoint": LayerCase(
        AutoInt,
        {"num_layers": 2, "mechanism": "talking_heads", "gate": HARD_CONCRETE, **SMALL},
        **FIELDS,
    ),
    "target_attention": LayerCase(TargetAttention, {}, **TARGET),
    "target_attention_heads": LayerCase(
        TargetAttention, {"mechanism": "alibi", "num_heads": 2, "head_dim": 3}, **TARGET
    ),
    "experts": LayerCase(Experts, {"num_experts": 3, "units": (5, 4)}, **ROWS, batched=False),
    "input_gate": LayerCase(InputGate, {"num_tasks": 2, "num_experts": 3}, **ROWS),
    "attention_gate": LayerCase(AttentionGate, {"num_tasks": 2}, {"experts": "BSE"}),
    **{
        f"mmoe_{gate}": LayerCase(
            MMoE,
            {"num_tasks": 2, "num_experts": 3, "expert_units": (5, 4), "gate": gate},
        )
        for gate in ("softmax", "attention", "both")
    },
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", grouped(CASES))
def test_layer(case: LayerCase, check: Callable[[LayerCase, Path], None], tmp_path: Path) -> None:
    check(case, tmp_path)


def test_every_exported_layer_is_checked() -> None:
    """In a case of its own, here or in another file, or as a part of a composition."""
    from recsys_attn import attention, blocks, interactions, multitask
    from recsys_attn.attention import gates, mechanisms, routers

    slots = (scores, weightings, gates, mechanisms, routers)
    exported = {
        getattr(module, name)
        for module in (attention, *slots, blocks, interactions, multitask)
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    }
    layers = {item for item in exported if issubclass(item, keras.layers.Layer)}
    abstract = {mechanisms.Mechanism, scores.Score, weightings.Weighting, routers.Router}
    assert layers - abstract - _checked() == set()


def _checked() -> set[type]:
    """The classes of all layers in the cases of this folder's files."""
    cases = [composition.case for composition in COMPOSITIONS.values()]
    root = Path(__file__).parents[2]
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        names = path.relative_to(root).with_suffix("").parts
        if names[2] in ("backend", "models", "optimizers"):
            continue
        module = importlib.import_module(".".join(names))
        for table in vars(module).values():
            if isinstance(table, dict):
                cases += [case for case in table.values() if isinstance(case, LayerCase)]
    return {type(part) for case in cases for part in case.make()._flatten_layers()}
