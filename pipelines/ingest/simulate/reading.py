"""The source `simulate`: independent requests, or the log of a market that lives for some days."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import DataOptions, SimulateOptions
from pipelines.ingest.simulate.living_market import LivingMarket
from pipelines.ingest.simulate.marketplace import SECONDS, Marketplace
from pipelines.ingest.simulate.timeline import DAY, LOG_START
from pipelines.ingest.simulate.world import START
from pipelines.ingest.source import ALL, Columns, Source, SourceFile


def read(options: DataOptions, seed: int) -> Source:
    """Simulates requests chunk by chunk; the first ones do not depend on the total number."""
    size = options.simulate or SimulateOptions()
    return _independent(size, seed) if size.days is None else _log(size, size.days, seed)


def _independent(size: SimulateOptions, seed: int) -> Source:
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


def _log(size: SimulateOptions, days: int, seed: int) -> Source:
    count = size.rows // size.candidates
    market = LivingMarket(size, days, seed)
    edges = LOG_START + np.arange(0, days * DAY + 1, market.timeline.step)

    def chunks(columns: Columns) -> Iterator[pa.Table]:
        living = LivingMarket(size, days, seed)
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            requests = living.requests(start, stop)
            if len(requests):
                yield pa.table(living.rows(requests) | living.outcomes(requests))

    return Source(
        {ALL: [SourceFile("simulate", chunks)]},
        request="request_id",
        user="user_id",
        time="timestamp",
        time_quantile=lambda share: market.timeline.time_of(round(share * count)),
        users=market.users(),
        items=market.items(),
    )
