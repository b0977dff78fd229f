"""Batch scoring: writes Parquet rows with a score per task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import atomic_file
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine
from pipelines.features import FittedFeatures
from pipelines.ingest.column_checks import check_made
from pipelines.ingest.context import check_context
from pipelines.ingest.table_checks import check_table
from pipelines.ingest.user_features import with_users
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.filesystem import Storage, Where
from pipelines.storage.footers import Footers
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema
from serving.state.columns.arrow_kinds import is_list

Load = Callable[[], tuple[FittedFeatures, RankingModel]]


def score(
    source: Where,
    target: Path,
    tasks: Sequence[str],
    load: Load,
    request: str | None,
    progress: Progress,
    engine: Engine = LOCAL,
    made: Sequence[str] = (),
    features: Schema | None = None,
) -> int:
    """Writes `target` with the columns of `source` and `<task>_score` for every task.

    Args:
        source: A Parquet file, or a folder of them: a local path or a URI.
        target: The Parquet file to write, atomically.
        tasks: Names of the model's tasks.
        load: Loads the transforms and the model, once in each scoring process.
        request: Column of the request id. If the file has it, the context of a request is
            computed once and must be equal in all its rows; scores are the same without it.
        progress: Shows the rows done.
        engine: Scores the row groups.
        made: Columns that ingest makes of earlier rows.
        features: The features, whose types columns take where files differ.

    Returns:
        The number of rows written.

    Raises:
        PipelineError: A column is missing or of another type, a context changes within a request,
            a file is damaged, or the disk is full. `target` is then unchanged.
    """
    split = open_source(source, features)
    names = [f"{task}_score" for task in tasks]
    clashes = sorted(set(names) & set(split.columns))
    if clashes:
        raise PipelineError(
            f"{split.footers.storage.name} already has the columns {clashes}. Remove or rename "
            "them."
        )
    if not split.rows:
        raise PipelineError(f"{split.footers.storage.name} holds no rows to score.")
    if target.is_dir():
        raise PipelineError(f"{target} is a folder. Name the Parquet file to write.")
    split.footers.check_columns(split.columns)
    schema = _written(split.footers)
    for name in names:
        schema = schema.append(pa.field(name, pa.float32()))
    request = request if request in split.columns else None
    work = partial(_scoring, split.footers, load, request, made)
    try:
        advance = progress.start("scoring", split.rows)
        with (
            atomic_file(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
            closing(engine.map_ordered(work, range(len(split.footers)))) as tables,
        ):
            for table in tables:
                writer.write_table(table)
                advance(table.num_rows)
    finally:
        progress.stop()
    return split.rows


@contextmanager
def _scoring(
    footers: Footers, load: Load, request: str | None, made: Sequence[str]
) -> Iterator[Callable[[int], pa.Table]]:
    """Yields a function from the number of a row group to its rows with scores."""
    fitted, model = load()
    columns, stored = footers.types.names, _written(footers)
    check_made(made, fitted.raw_schema, columns, footers.file_name(0))
    scorer = Scorer(model)

    def scored(number: int) -> pa.Table:
        table = reader.read([number])
        where = footers.file_name(footers.file[number]), int(footers.first_row[number])
        whole = with_users(table, fitted.users, where[0])
        checked = check_table(whole, fitted.raw_schema, where[0], False, where[1])
        if request is not None:
            check_context(checked, fitted.raw_schema, request, *where)
        scores = scorer.score_table(fitted.joined(checked), fitted, request)
        table = table.cast(stored)
        for task in fitted.schema.tasks:
            table = table.append_column(f"{task.name}_score", pa.array(scores[task.name]))
        return table

    with Reader(footers, columns) as reader:
        yield scored


def _written(footers: Footers) -> pa.Schema:
    """The columns as the files store them, or, where they differ, as they are read."""
    if len(footers.schemas) > 1:
        return footers.types.schema
    stored = footers.schemas[0]
    fields = [_field(field, footers.types.schema.field(field.name).type) for field in stored]
    return pa.schema(fields, stored.metadata)


def _field(stored: pa.Field, read: pa.DataType) -> pa.Field:
    """The stored field, if Arrow casts to its type."""
    if is_list(stored.type):
        return stored if stored.type == read else stored.with_type(read)
    try:
        pa.nulls(0, read).cast(stored.type)
    except pa.ArrowException:
        return stored.with_type(read)
    return stored


def open_source(source: Where, features: Schema | None = None) -> DataSplit:
    """Opens the files of an input.

    Args:
        source: A file or a folder: a local path or a URI.
        features: The features, whose types columns take where files differ.

    Raises:
        PipelineError: There are no files.
    """
    Storage.of(source).check_exists("input")
    return DataSplit(source, features=features)
