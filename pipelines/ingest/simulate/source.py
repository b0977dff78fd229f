"""The simulated marketplace as a source of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipelines.ingest.data_options import DataOptions, SimulateOptions
from pipelines.ingest.simulate.marketplace import SECONDS, START, Marketplace
from pipelines.ingest.source import ALL, Columns, Source, SourceFile


def read(options: DataOptions, seed: int) -> Source:
    """Simulates requests chunk by chunk; the first ones do not depend on the total number."""
    size = options.simulate or SimulateOptions()
    requests = size.rows // size.candidates

    def chunks(columns: Columns) -> Iterator[pa.Table]:
        marketplace = Marketplace(size, seed)
        size_of_chunk = marketplace.requests_per_chunk
        for chunk in range(-(-requests // size_of_chunk)):
            left = requests - chunk * size_of_chunk
            yield marketplace.chunk(chunk).slice(0, left * size.candidates)

    return Source(
        {ALL: [SourceFile("simulate", chunks)]},
        request="request_id",
        user="user_id",
        time="timestamp",
        time_quantile=lambda share: START + SECONDS * round(share * requests),
    )
