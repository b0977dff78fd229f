"""The printed results of a sequence model."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.pretraining.evaluate_next_items import (
    ITEM_ITEM,
    POPULARITY,
    print_results,
    sampled_items,
)
from recsys_attn.schema import RESERVED_IDS
from tests.pipelines.pretraining.small_log import load

METRICS = ("hr@10", "ndcg@10", "mrr@10", "coverage@10")


def printed(**ndcg: float) -> str:
    results: dict[str, Any] = {
        name: {
            "metrics": {**dict.fromkeys(METRICS, 0.1), "ndcg@10": value},
            "intervals": {"ndcg@10": [0.0, 1.0]},
        }
        for name, value in ndcg.items()
    }
    counts = {"rows": 9, "items": 5, "seen": "ranked", "unknown_targets": 0}
    output = io.StringIO()
    print_results(Console(file=output), {"model": "sasrec", "results": results, **counts}, 10)
    return output.getvalue()


@pytest.mark.parametrize(
    ("model", "ahead"),
    [
        (0.3, None),
        (0.2, None),
        (0.15, f"Better than sasrec: {ITEM_ITEM}."),
        (0.05, f"Better than sasrec: {POPULARITY} and {ITEM_ITEM}."),
    ],
)
def test_a_model_behind_a_simple_rule_is_named(model: float, ahead: str | None) -> None:
    found = printed(**{"sasrec": model, POPULARITY: 0.1, ITEM_ITEM: 0.2})
    assert ("Better than" in found) == (ahead is not None)
    assert ahead is None or ahead in found


def test_fewer_items_are_drawn_than_there_are(tmp_path: Path) -> None:
    counts = np.ones(RESERVED_IDS + 7)
    assert sampled_items(load(tmp_path, evaluation__sampled={"negatives": 6}), counts) is not None
    with pytest.raises(PipelineError, match=r"less than the 7 items of the .* Received: 7"):
        sampled_items(load(tmp_path, evaluation__sampled={"negatives": 7}), counts)
