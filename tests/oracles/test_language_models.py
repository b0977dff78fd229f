"""Attention of Hugging Face's language models against ours: QK-norm, soft caps, sinks, groups.

All of them have heads that share keys and values, and turn queries and keys by their positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recsys_attn.attention import Dense, MultiHeadAttention
from recsys_attn.attention.scores import QkNorm, Rotary, SoftCap
from tests.oracles.support import agree, assign, multi_head, normal, numpy, oracle, tensor

B, S, E, N, K, H = 2, 11, 24, 6, 2, 8
EVENTS = 2 * normal(1, B, S, E)
SIZES = {
    "hidden_size": E,
    "num_attention_heads": N,
    "num_key_value_heads": K,
    "head_dim": H,
    "attn_implementation": "eager",
}


def attention(model: str, **options: Any) -> Any:
    """The attention of a model, with weights that are not small."""
    family = "".join(part.capitalize() for part in model.split("_"))
    module, torch = oracle(f"transformers.models.{model}.modeling_{model}"), oracle("torch")
    torch.manual_seed(0)
    config = getattr(module, f"{family}Config")(**SIZES, **options)
    layer = getattr(module, f"{family}Attention")(config, layer_idx=0).eval()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return layer


def output_of(theirs: Any, repeats: int = 2) -> Any:
    """Their output with a causal mask; `repeats` is how often they list the angles of a plane."""
    angles = np.outer(np.arange(S), 10000.0 ** (-np.arange(H // 2) / (H // 2))).astype("float32")
    waves = [tensor(np.tile(wave, (B, 1, repeats))) for wave in (np.cos(angles), np.sin(angles))]
    hidden = np.where(np.tri(S, dtype=bool), 0.0, -1e9).astype("float32")[None, None]
    return theirs(tensor(EVENTS), position_embeddings=waves, attention_mask=tensor(hidden))[0]


def in_ours(theirs: Any, mechanism: Any) -> MultiHeadAttention:
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    linear = {name: getattr(theirs, part) for name, part in names.items()}
    return multi_head(mechanism, [N, K], H, (EVENTS,), **linear)


def test_qwen3_normalises_queries_and_keys() -> None:
    theirs = attention("qwen3", rms_norm_eps=1e-6)
    mechanism = Dense(QkNorm("rotary"), "causal")
    ours = in_ours(theirs, mechanism)
    for name, norm in mechanism.score.norms.items():
        norm.set_weights([numpy(getattr(theirs, f"{name[0]}_norm").weight)])
    agree("Hugging Face Qwen3", ours(EVENTS), output_of(theirs))


def test_gemma2_caps_its_logits() -> None:
    theirs = attention("gemma2", attn_logit_softcapping=3.0, query_pre_attn_scalar=H)
    ours = in_ours(theirs, Dense(SoftCap("rotary", cap=3.0), "causal"))
    agree("Hugging Face Gemma 2", ours(EVENTS), output_of(theirs))


def test_gpt_oss_has_sinks() -> None:
    theirs = attention("gpt_oss", attention_bias=True)
    mechanism = Dense(Rotary(), "causal", weighting="attention_sink")
    ours = in_ours(theirs, mechanism)
    assign(mechanism.weighting, sink=numpy(theirs.sinks))
    agree("Hugging Face gpt-oss", ours(EVENTS), output_of(theirs, repeats=1))
