"""The registry of mechanisms."""

from __future__ import annotations

from recsys_attn.registry import Registry

MECHANISMS = Registry(
    "a mechanism",
    "mechanisms",
    call=("query", "key", "value"),
    hint="A score, a pattern, a weighting or a router is an argument of one, as in Dense(score)",
)
