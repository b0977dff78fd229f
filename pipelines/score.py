"""Batch scoring: Parquet in, the same rows with a score per task out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import atomic_file
from pipelines.data import DataSplit, open_parquet
from pipelines.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.ingest.checks import check_table
from pipelines.ingest.context import check_context
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
            one computation of their context, which must be the same in all of them; the scores
            are the same without it.
        progress: Told the rows done.

    Returns:
        The number of rows written.

    Raises:
        PipelineError: A column is missing or of another type, a context changes inside a request,
            a file is damaged, the disk is full. `target` is then as it was before.
    """
    split = _open(source)
    request = request if request in split.columns else None
    names = [f"{task.name}_score" for task in fitted.schema.tasks]
    taken = sorted(set(names) & set(split.columns))
    if taken:
        raise PipelineError(f"{source} already has the columns {taken}. Remove or rename them.")
    rows = split.rows
    if not rows:
        raise PipelineError(f"{source} holds no rows to score.")
    if target.is_dir():
        raise PipelineError(f"{target} is a folder. Name the Parquet file to write.")
    schema = split.schema
    for name in names:
        schema = schema.append(pa.field(name, pa.float32()))
    scorer = Scorer(model)
    try:
        advance = progress.start("scoring", rows)
        with (
            atomic_file(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for group in split.row_groups:
                table = group.read(split.columns)
                where = (str(group.path), group.first_row)
                checked = check_table(table, fitted.schema, where[0], False, where[1])
                if request is not None:
                    check_context(checked, fitted.schema, request, *where)
                scores = scorer.score_table(checked, fitted, request)
                for task, name in zip(fitted.schema.tasks, names, strict=True):
                    table = table.append_column(name, pa.array(scores[task.name]))
                writer.write_table(table)
                advance(table.num_rows)
    finally:
        progress.stop()
    return rows


def _open(source: Path) -> DataSplit:
    if not source.exists():
        raise PipelineError(f"The input {source} does not exist.")
    split = DataSplit(source)
    for path in split.files:
        with open_parquet(path) as file:
            if not file.schema_arrow.equals(split.schema):
                raise PipelineError(
                    f"The files of {source} do not all have the same columns and types."
                )
    return split
