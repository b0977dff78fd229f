"""Evaluates a sequence model and simple rules over the whole catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.pretraining.baselines import ItemItem, Popularity
from pipelines.pretraining.evaluated_histories import item_counts, read_histories, read_items
from pipelines.pretraining.experiment import SequenceExperiment
from pipelines.pretraining.item_ranking import ModelScores, Scores, rank, rows_at_once
from pipelines.pretraining.sampled import SAMPLED_WARNING, SampledItems
from pipelines.pretraining.schema import with_length
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import SequenceModel
from recsys_attn.schema import RESERVED_IDS

POPULARITY, ITEM_ITEM = "popularity", "item-item neighbours"


def evaluate(
    experiment: SequenceExperiment,
    data: Path,
    fitted: FittedFeatures,
    model: SequenceModel,
    progress: Progress,
) -> dict[str, Any]:
    """Returns the metrics of the test rows, by the model and by rules of the train rows.

    Args:
        experiment: The experiment.
        data: The folder with the splits.
        fitted: The transforms.
        model: The trained model.
        progress: Shows the users done.
    """
    options = experiment.evaluation
    longer, size = with_length(fitted, experiment.max_length + 1), model.size
    counts = item_counts(data, fitted, model.item)
    train, test = DataSplit(data / "train"), DataSplit(data / "test")
    item_item = ItemItem(read_items(train, fitted, model.item), size, counts=counts)
    rules: dict[str, Scores] = {
        model.name: ModelScores(model),
        POPULARITY: _of_rule(Popularity(counts)),
        ITEM_ITEM: _of_rule(item_item),
    }
    results: dict[str, dict[str, Any]] = {}
    for name, scores in rules.items():
        advance = progress.start(f"ranking by {name}", test.rows)
        histories = read_histories(test, longer, model.item, rows_at_once(size))
        sampled = sampled_items(experiment, counts)
        filter_seen = options.seen == "filtered"
        try:
            ranks = rank(histories, scores, options.at, size, filter_seen, sampled, advance)
        finally:
            progress.stop()
        results[name] = {"metrics": ranks.metrics(), "intervals": ranks.intervals()}
        if sampled is not None:
            results[name]["metrics"] |= sampled.metrics()
            results[name]["intervals"] |= sampled.intervals()
    if options.sampled is not None:
        progress.finish(SAMPLED_WARNING)
    return {
        "model": model.name,
        "rows": ranks.rows,
        "unknown_targets": ranks.unknown,
        "repeated_targets": ranks.excluded,
        "items": size - 2,
        "seen": options.seen,
        "split": experiment.data.split.model_dump(mode="json"),
        "results": results,
    }


def sampled_items(experiment: SequenceExperiment, counts: np.ndarray) -> SampledItems | None:
    """Returns the drawn items of `evaluation.sampled`, or None.

    Raises:
        PipelineError: The catalogue has no more items than are drawn.
    """
    options = experiment.evaluation
    if options.sampled is None:
        return None
    drawn, items = options.sampled, len(counts) - RESERVED_IDS
    if drawn.negatives >= items:
        raise PipelineError(
            f"`evaluation.sampled.negatives`: expected less than the {items:,} items of the "
            f"catalogue, all of which rank anyway. Received: {drawn.negatives:,}."
        )
    return SampledItems(options.at, counts, drawn.negatives, drawn.by, experiment.seed)


def _of_rule(rule: Any) -> Scores:
    return lambda histories: rule.scores(histories.seen)


def print_results(console: Console, metrics: dict[str, Any], places: int) -> None:
    """Prints the metrics at a number of places, the model first, and the interval of NDCG."""
    names = [f"{name}@{places}" for name in ("hr", "ndcg", "mrr", "coverage")]
    ndcg = f"ndcg@{places}"
    heads = (f"HR@{places}", "NDCG", "MRR", "coverage", "95 % of NDCG")
    table = Table("", *heads, box=None)
    for name, result in metrics["results"].items():
        low, high = result["intervals"][ndcg]
        numbers = [f"{result['metrics'][metric]:.4f}" for metric in names]
        table.add_row(name, *numbers, f"{low:.4f} to {high:.4f}")
    console.print(table)
    seen = "all items rank"
    if metrics["seen"] == "filtered":
        missed = metrics["repeated_targets"]
        seen = f"items of the history do not rank, so that {missed:,} repeated ones are missed"
    console.print(
        f"  {metrics['rows']:,} users, {metrics['items']:,} items, {seen}; next items that "
        f"training did not have: {metrics['unknown_targets']:,}",
        highlight=False,
        soft_wrap=True,
    )
    results = {name: result["metrics"][ndcg] for name, result in metrics["results"].items()}
    ahead = [name for name in (POPULARITY, ITEM_ITEM) if results[name] > results[metrics["model"]]]
    if ahead:
        console.print(
            f"  Better than {metrics['model']}: {' and '.join(ahead)}. It has learned little. "
            "Train longer (`training.epochs`, `training.patience`), in smaller batches "
            "(`training.batch_size`), or from more events",
            highlight=False,
            soft_wrap=True,
        )
