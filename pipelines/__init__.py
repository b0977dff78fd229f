"""Batch jobs fed by Parquet: ingest, features, training, evaluation, export and batch scores.

The names below are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines import metrics
    from pipelines.calls.main_commands import evaluate, run, score, train

__all__ = ["evaluate", "metrics", "run", "score", "train"]


# Not by `recsys_attn.lazy`: the client's command needs no `recsys_attn`.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "metrics":
        return importlib.import_module("pipelines.metrics")
    return getattr(importlib.import_module("pipelines.calls.main_commands"), name)


def __dir__() -> list[str]:
    return __all__
