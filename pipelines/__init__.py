"""Batch jobs fed by Parquet: ingest, features, training, evaluation, export and batch scores.

The names below are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recsys_attn.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from pipelines import metrics
    from pipelines.calls.steps import evaluate, run, score, train

__all__ = ["evaluate", "metrics", "run", "score", "train"]

_CALLS = dict.fromkeys(("evaluate", "run", "score", "train"), "calls.steps")

__getattr__, __dir__ = _lazy_names(__name__, {**_CALLS, "metrics": ""})
