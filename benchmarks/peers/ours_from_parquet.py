"""Ours from Parquet through the whole feed: how long does the step wait for rows?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.contender import MEGABYTE, Measured, peak_memory
from benchmarks.peers.data import Batch, load
from benchmarks.peers.ours import Ours
from benchmarks.peers.ours_model import blocks_of, inputs_of, make_schema
from benchmarks.peers.settings import Settings
from pipelines.features.fit import fit
from pipelines.feed import LENGTHS, TRAINING_CANDIDATES, Feed, Position
from pipelines.feed import Batch as FeedBatch
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK

ROW_GROUP = 1 << 16


def write(settings: Settings, rows: Batch, folder: Path) -> None:
    """The rows as a file with a column for each feature and task."""
    inputs = inputs_of(blocks_of(rows))
    del inputs[CANDIDATE_MASK]
    columns = {
        name: pa.array(values.ravel().astype("int64"))
        if values.shape[-1] == 1 or values.ndim == 1
        else pa.FixedSizeListArray.from_arrays(
            pa.array(values.ravel().astype("int64")), values.shape[1]
        ).cast(pa.list_(pa.int64()))
        for name, values in inputs.items()
    }
    for index, task in enumerate(settings.tasks):
        columns[task] = pa.array(rows.labels[:, 0, index].astype("int8"))
    pq.write_table(pa.table(columns), folder / "part-00000.parquet", ROW_GROUP, compression="zstd")


def make_feed(settings: Settings, folder: Path) -> Feed:
    """The feed that training has, over the features fitted to the same rows."""
    schema, split = make_schema(settings), DataSplit(folder)
    fitted = fit(schema, split.batches([feature.name for feature in schema.features]))
    return Feed(
        split,
        fitted,
        None,
        settings.batch,
        seed=0,
        candidates=TRAINING_CANDIDATES,
        lengths=LENGTHS,
    )


def main() -> None:
    """Prints one line of JSON; rows a second are of all steps together, with their waits."""
    settings = Settings(**json.loads(sys.argv[1]))
    with TemporaryDirectory() as folder:
        write(settings, load(settings, "train"), Path(folder))
        feed = make_feed(settings, Path(folder))
        ours = Ours(settings, feed.fitted.schema)
        waits: list[float] = []
        seconds: list[float] = []
        rows: list[float] = []
        loss = 0.0
        before = time.perf_counter()
        for wait, batch in _batches(feed, settings.warm_up + settings.steps):
            loss, count, _ = ours.engine([batch.blocks])
            after = time.perf_counter()
            waits, seconds, rows = [*waits, wait], [*seconds, after - before], [*rows, count]
            before = after
    timed = slice(settings.warm_up, None)
    result = Measured(
        float(np.sum(rows[timed]) / np.sum(seconds[timed])),
        loss,
        peak_memory(),
        **{name: size / MEGABYTE for name, size in ours.memory().items()},
        input_wait=float(np.sum(waits[timed]) / np.sum(seconds[timed])),
    )
    print(json.dumps(asdict(result)))


def _batches(feed: Feed, steps: int) -> Iterator[tuple[float, FeedBatch]]:
    """Batches of as many epochs as it takes, and how long each was waited for."""
    position = Position()
    while steps:
        waited = 0.0
        for batch in (batches := feed.batches(position)):
            yield batches.waited - waited, batch
            waited, position, steps = batches.waited, batch.position, steps - 1
            if not steps:
                batches.close()
                break


if __name__ == "__main__":
    main()
