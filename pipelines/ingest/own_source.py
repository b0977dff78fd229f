"""A user's source: a function from a path to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.common_schema import with_common_columns
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Columns, Source, SourceFile, Wanted
from pipelines.storage.filesystem import Where, shown

Function = Callable[..., Iterable[pa.Table]]


def read_own(function: Function, options: DataOptions, wanted: Wanted) -> Source:
    """The tables of a registered function, for each path."""
    parts = {
        part: [_file(function, options, place) for place in places]
        or [_file(function, options, None)]
        for part, places in options.places_by_part().items()
    }
    source = Source(parts, checks_requests=True)
    return with_common_columns(source, options, wanted.schema, wanted.named)


def _file(function: Function, options: DataOptions, place: Where | None) -> SourceFile:
    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in function(place, **options.options):
            if not isinstance(table, pa.Table):
                raise PipelineError(
                    f"The source {options.source!r} must yield tables of pyarrow. "
                    f"Received: {type(table).__name__}"
                )
            yield table

    return SourceFile(options.source if place is None else shown(place), read)
