"""The best items of each request: of its own candidates, or of a whole catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import atomic_file
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine
from pipelines.features import FittedFeatures
from pipelines.ingest.context import check_context
from pipelines.ingest.table_checks import check_table
from pipelines.ingest.user_features import columns_to_read, with_users
from pipelines.scoring.catalogue_ranking import CatalogueRanking
from pipelines.scoring.score_files import Load, open_source
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import Reader
from pipelines.storage.filesystem import Where
from pipelines.storage.footers import Footers
from pipelines.storage.request_rows import check_requests, request_starts
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema

REQUEST, RANK, SCORE = "request", "rank", "score"


@dataclass(frozen=True)
class TopKOptions:
    """The options of a ranking.

    Args:
        k: Items of each request.
        task: Task whose scores rank.
        key: Column of the item's id.
        catalogue: Whether to rank all items, and not the candidates of the rows.
        unseen: Whether to leave out the items of the request's histories; of a catalogue only.
    """

    k: int
    task: str
    key: str
    catalogue: bool = False
    unseen: bool = False


def score_top_k(
    source: Where,
    target: Path,
    options: TopKOptions,
    load: Load,
    request: str | None,
    progress: Progress,
    engine: Engine = LOCAL,
    features: Schema | None = None,
) -> int:
    """Writes `target` with a row for each of the best items of each request.

    The columns are the request's id (or row number) as `request`, `rank` from 1, the item's id
    under its own name, and `score`. Items of equal score keep their order in the rows or the
    catalogue.

    Args:
        source: A Parquet file, or a folder of them: rows of candidates, or, with a catalogue, rows
            of contexts, of which the first of each request counts.
        target: The Parquet file to write, atomically.
        options: What to rank.
        load: Loads the transforms and the model, once in each scoring process. With
            `options.catalogue`, the transforms' item table is the catalogue.
        request: Column of the request id. None, or not in the file: each row is a request.
        progress: Shows the rows done.
        engine: Ranks the row groups.
        features: The features, whose types columns take where files differ.

    Returns:
        The number of requests.

    Raises:
        PipelineError: A column is missing or of another type, a context changes within a request,
            the rows of a request do not follow each other, a file is damaged, or the disk is full.
            `target` is then unchanged.
    """
    split = open_source(source, features)
    if not split.rows:
        raise PipelineError(f"{split.footers.storage.name} holds no rows to rank.")
    if target.is_dir():
        raise PipelineError(f"{target} is a folder. Name the Parquet file to write.")
    if not options.catalogue and options.key not in split.columns:
        raise PipelineError(
            f"{split.footers.storage.name} has no column {options.key!r} of candidates to rank. "
            f"Add it, or rank all items with --catalogue. Columns: {', '.join(split.columns)}."
        )
    request = request if request in split.columns else None
    if request is not None:
        check_requests(split, request)
    work = partial(_ranking, split.footers, load, request, options)
    requests = 0
    try:
        advance = progress.start("ranking", split.rows)
        with (
            atomic_file(target) as temporary,
            closing(engine.map_ordered(work, range(len(split.footers)))) as tables,
            _Writer(temporary) as writer,
        ):
            for number, table in enumerate(_whole_requests(tables, options)):
                writer.write(table)
                requests += int(np.count_nonzero(table[RANK].to_numpy() == 1))
                advance(int(split.footers.rows[number]) if number < len(split.footers) else 0)
    finally:
        progress.stop()
    return requests


class _Writer:
    """Opens the file with the first table."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._file.write_table(table)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def _whole_requests(tables: Iterator[pa.Table], options: TopKOptions) -> Iterator[pa.Table]:
    """The tables, with the requests that two row groups share in one of them."""
    held: pa.Table | None = None  # the last request, which the next row group may continue
    for table in tables:
        if not table.num_rows:
            yield table
            continue
        if held is not None and held[REQUEST][0] == table[REQUEST][0]:
            first = int(request_starts(table, REQUEST)[1])
            held = _merged(held, table.slice(0, first), options)
            table = table.slice(first)
            if not table.num_rows:
                yield held.slice(0, 0)
                continue
        last = int(request_starts(table, REQUEST)[-2])
        together = [] if held is None else [held]
        yield pa.concat_tables([*together, table.slice(0, last)])
        held = table.slice(last)
    if held is not None:
        yield held


def _merged(one: pa.Table, other: pa.Table, options: TopKOptions) -> pa.Table:
    """The best items of two parts of one request."""
    if options.catalogue:
        return one
    both = pa.concat_tables([one, other])
    order = np.argsort(-both[SCORE].to_numpy(), kind="stable")[: options.k]
    ranks = pa.array(np.arange(1, len(order) + 1, dtype="int32"))
    return both.take(pa.array(order)).set_column(1, RANK, ranks)


@contextmanager
def _ranking(
    footers: Footers, load: Load, request: str | None, options: TopKOptions
) -> Iterator[Callable[[int], pa.Table]]:
    """Yields a function from the number of a row group to the best items of its requests."""
    fitted, model = load()
    schema = fitted.context_schema if options.catalogue else fitted.raw_schema
    names = [feature.name for feature in schema.features]
    names += [options.key] if not options.catalogue and options.key not in names else []
    names += [request] if request and request not in names else []
    names = columns_to_read(names, fitted.users, footers.types.names)
    before = np.cumsum(footers.rows) - footers.rows
    best = _best_of_catalogue if options.catalogue else _best_of_candidates
    rank = best(fitted, model, options)

    def ranked(number: int) -> pa.Table:
        table = reader.read([number])
        where = footers.file_name(footers.file[number]), int(footers.first_row[number])
        table = with_users(table, fitted.users, where[0])
        checked = check_table(table, schema, where[0], False, where[1])
        if request is not None:
            check_context(checked, schema, request, *where)
        starts = request_starts(checked, request)
        numbers, items, scores = rank(checked, starts)
        all_ids = before[number] + np.arange(table.num_rows)
        ids = pa.array(all_ids) if request is None else checked[request].combine_chunks()
        return pa.table(
            {
                REQUEST: ids.take(pa.array(starts[:-1][numbers])),
                RANK: (1 + np.arange(len(numbers)) - np.searchsorted(numbers, numbers)).astype(
                    "int32"
                ),
                options.key: items,
                SCORE: scores,
            }
        )

    with Reader(footers, names) as reader:
        yield ranked


Ranked = tuple[np.ndarray, pa.Array, np.ndarray]  # number of the request, item, score


def _best_of_candidates(
    fitted: FittedFeatures, model: RankingModel, options: TopKOptions
) -> Callable[[pa.Table, np.ndarray], Ranked]:
    scorer = Scorer(model)

    def rank(table: pa.Table, starts: np.ndarray) -> Ranked:
        numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        rows = fitted.joined(table).append_column("number of the request", pa.array(numbers))
        scores = scorer.score_table(rows, fitted, "number of the request")[options.task]
        order = np.lexsort([np.arange(len(scores)), -scores, numbers])
        place = np.arange(len(order)) - starts[:-1][numbers]  # requests stay where they are
        order = order[place < options.k]
        items = table[options.key].combine_chunks().take(pa.array(order))
        return numbers[order], items, scores[order]

    return rank


def _best_of_catalogue(
    fitted: FittedFeatures, model: RankingModel, options: TopKOptions
) -> Callable[[pa.Table, np.ndarray], Ranked]:
    ranking = CatalogueRanking.of(fitted, model, options.task, options.unseen)

    def rank(table: pa.Table, starts: np.ndarray) -> Ranked:
        rows, scores = ranking.best(table.take(pa.array(starts[:-1])), options.k)
        number, place = np.nonzero(np.isfinite(scores))
        items = ranking.items.keys.take(pa.array(rows[number, place]))
        return number, items, scores[number, place]

    return rank
