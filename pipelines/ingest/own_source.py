"""A user's source: a function from a path to tables."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import SOURCES, Columns, Source, SourceFile
from pipelines.storage.filesystem import Where, shown


def read_own(options: DataOptions) -> Source:
    """The tables of the function that is registered as `data.source`, for each path."""
    parts = {
        part: [_file(options, place) for place in places] or [_file(options, None)]
        for part, places in options.places_by_part().items()
    }
    return Source(parts, checks_requests=True)


def _file(options: DataOptions, place: Where | None) -> SourceFile:
    function = SOURCES[options.source]

    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in function(place, **options.options):
            if not isinstance(table, pa.Table):
                raise PipelineError(
                    f"The source {options.source!r} must yield tables of pyarrow. "
                    f"Received: {type(table).__name__}"
                )
            yield table

    return SourceFile(options.source if place is None else shown(place), read)
