"""Ranks items with the model of a run."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine
from pipelines.features import FittedFeatures
from pipelines.ingest.item_features import item_table
from pipelines.items import ItemTable
from pipelines.scoring.top_items import TopKOptions, score_top_k
from pipelines.storage.filesystem import Where
from pipelines.training.load import load_trained
from pipelines.workflow.steps import Steps
from recsys_attn.models import RankingModel
from serving.state.errors import did_you_mean


def rank(
    steps: Steps,
    source: Where,
    target: Path,
    k: int,
    catalogue: Where | None = None,
    whole: bool = False,
    unseen: bool = False,
    rank_by: str | None = None,
    engine: Engine = LOCAL,
) -> int:
    """Writes the best items of each request; returns the number of requests.

    Args:
        steps: The run.
        source: Rows of candidates, or of contexts where a catalogue is ranked.
        target: The file to write.
        k: Items of each request.
        catalogue: Parquet file of the items to rank. None: the item table of the run, where
            `whole`, else the candidates of the rows.
        whole: Whether to rank a whole catalogue.
        unseen: Whether to leave out the items of the request's histories.
        rank_by: Task whose scores rank. None: the first.
        engine: Ranks the row groups.
    """
    steps.run.manifest("train")
    tasks = [task.name for task in steps.experiment.tasks]
    if rank_by is not None and rank_by not in tasks:
        raise PipelineError(
            f"--rank-by: expected one of the tasks {', '.join(tasks)}. Received: {rank_by}."
            f"{did_you_mean(rank_by, tasks)}"
        )
    items = steps.experiment.data.items
    if items is None:
        raise PipelineError(
            "--top-k needs the column of the item's id: add the table `data.items` with its "
            '`key`, such as `items = { key = "item_id" }`, and run again.'
        )
    exclude = steps.experiment.model.exclude
    load = functools.partial(_load, steps.run.folder, exclude, items.key, catalogue)
    options = TopKOptions(k, rank_by or tasks[0], items.key, whole, unseen)
    progress = Progress(steps.console)
    features = steps.experiment.schema_
    return score_top_k(source, target, options, load, steps.request, progress, engine, features)


def _load(
    run: Path, exclude: tuple[str, ...], key: str, catalogue: Where | None
) -> tuple[FittedFeatures, RankingModel]:
    """The model and its transforms, whose item table is the catalogue."""
    fitted, model = load_trained(run, exclude)
    if catalogue is None:
        return fitted, model
    raw = item_table([catalogue], key, fitted.raw_schema)
    items = ItemTable(key, fitted.joined(raw.table), raw.positives)
    return dataclasses.replace(fitted, items=items), model
