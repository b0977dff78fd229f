"""Batch scoring: Parquet in, the same rows with a score per task out."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import disk_errors
from pipelines.data import DataSplit, open_parquet
from pipelines.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.ingest.checks import check_table
from pipelines.progress import Progress
from pipelines.scoring import Scorer
from recsys_attn.models import RankingModel


def score(
    source: Path,
    target: Path,
    fitted: FittedFeatures,
    model: RankingModel,
    request: str | None,
    progress: Progress,
) -> int:
    """Writes `target` with the columns of `source` and `<task>_score` for every task.

    Args:
        source: A Parquet file, or a folder of them.
        target: The Parquet file to write; it appears when it is whole.
        fitted: Transforms of the trained model.
        model: The trained model.
        request: Column of the request's id. Where the file has it, the rows of a request share
            one computation of their context; the scores are the same without it.
        progress: Told the rows done.

    Returns:
        The number of rows written.

    Raises:
        PipelineError: A column is missing or of another type, a file is damaged, the disk is
            full. `target` is then as it was before.
    """
    split = _open(source)
    request = request if request in split.columns else None
    names = [f"{task.name}_score" for task in fitted.schema.tasks]
    taken = sorted(set(names) & set(split.columns))
    if taken:
        raise PipelineError(f"{source} already has the columns {taken}. Remove or rename them.")
    scorer = Scorer(model)
    temporary = target.parent / f".{target.name}.new"
    advance = progress.start("scoring", split.rows)
    rows = 0
    try:
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            writer = None
            for group in split.row_groups:
                table = group.read(split.columns)
                checked = check_table(table, fitted.schema, str(group.path), labels=False)
                scores = scorer.score_table(checked, fitted, request) if table.num_rows else {}
                for task in fitted.schema.tasks:
                    column = pa.array(scores.get(task.name, []), pa.float32())
                    table = table.append_column(f"{task.name}_score", column)
                if writer is None:
                    writer = pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table)
                rows += table.num_rows
                advance(table.num_rows)
            if writer is None:
                raise PipelineError(f"{source} holds no rows to score.")
            writer.close()
            os.replace(temporary, target)
    finally:
        progress.stop()
        temporary.unlink(missing_ok=True)
    return rows


def _open(source: Path) -> DataSplit:
    if not source.exists():
        raise PipelineError(f"The input {source} does not exist.")
    split = DataSplit(source)
    schemas = []
    for path in split.files:
        with open_parquet(path) as file:
            schemas.append(file.schema_arrow)
    if any(not schema.equals(schemas[0]) for schema in schemas[1:]):
        raise PipelineError(f"The files of {source} do not all have the same columns and types.")
    return split
