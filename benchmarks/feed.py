"""The feed on one core: rows a second, memory, and how well it shuffles.

    make bench

Each case runs in a process of its own on one core: the feed, the feed with its blocks made
tensors, `tf.data` around the same feed with a tensor for each feature, and what pyarrow needs to
decode the same columns and do nothing with them. Seconds are the processor's, so that what else
runs on the machine counts little. The table has medians of three epochs, and by how much the
feed's first two epochs raised the peak of the process's memory. Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from benchmarks.shared.shuffling import ShuffleQuality
from pipelines.features import FittedFeatures
from pipelines.features.fit import fit
from pipelines.feed import LENGTHS, TRAINING_CANDIDATES, Feed, Position
from pipelines.feed.order import Order
from pipelines.feed.tensors import block_tensors
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Feature, Numeric, Schema, Sequence, Task

ROWS = 1 << 20
ROW_GROUP = 1 << 16
BATCH = 4096
EPOCHS = 3
HISTORY = 100
RNG = np.random.default_rng(0)


def skewed(size: int) -> np.ndarray:
    """Values of a few to a hundred thousand kinds, the frequent ones very frequent."""
    return (RNG.zipf(1.3, size) - 1) % int(10 ** RNG.uniform(1, 5))


def labels(rows: int) -> pa.Array:
    return pa.array(RNG.random(rows) < 0.2).cast(pa.int8())


def words(numbers: np.ndarray) -> pa.Array:
    """Strings of eight hexadecimal digits, as Criteo has them."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    texts = pa.array([f"{int(n) * 2654435761 & 0xFFFFFFFF:08x}" for n in distinct])
    return texts.take(pa.array(inverse))


def integers() -> tuple[pa.Table, list[Feature]]:
    """39 columns of ids."""
    features = [Categorical(f"c{i}", dtype="int64") for i in range(39)]
    return pa.table({f.name: skewed(ROWS) for f in features}), list(features)


def strings() -> tuple[pa.Table, list[Feature]]:
    """26 columns of strings and 13 of numbers, a tenth of them missing."""
    texts = [Categorical(f"s{i}") for i in range(26)]
    numbers = [Numeric(f"n{i}", transform=("log1p", "standardise")) for i in range(13)]
    columns = {f.name: words(skewed(ROWS)) for f in texts}
    for feature in numbers:
        values = RNG.lognormal(0, 1, ROWS).astype("float32")
        columns[feature.name] = pa.array(values, mask=RNG.random(ROWS) < 0.1)
    return pa.table(columns), [*texts, *numbers]


def histories() -> tuple[pa.Table, list[Feature]]:
    """Requests of 1 to 39 candidates, whose user has 100 past items with a category each."""
    requests = ROWS // 64
    sizes = RNG.integers(1, 40, requests)
    which = np.repeat(np.arange(requests), sizes)
    items, categories = skewed(requests * HISTORY), skewed(requests * HISTORY)
    offsets = np.arange(0, requests * HISTORY + 1, HISTORY)
    past = pa.ListArray.from_arrays(offsets.astype("int32"), pa.array(items))
    kinds = pa.ListArray.from_arrays(offsets.astype("int32"), words(categories))
    columns = {
        "request": pa.array(which),
        "user": pa.array(np.arange(requests)).take(pa.array(which)),
        "item": pa.array(RNG.choice(items, len(which))),
        "category": words(RNG.choice(categories, len(which))),
        "price": pa.array(RNG.lognormal(0, 1, len(which)).astype("float32")),
        "past_items": past.take(pa.array(which)),
        "past_categories": kinds.take(pa.array(which)),
    }
    return pa.table(columns), [
        Categorical("user", "context", dtype="int64"),
        Categorical("item", dtype="int64"),
        Categorical("category"),
        Numeric("price"),
        Sequence("past_items", shares="item", dtype="int64", max_length=HISTORY),
        Sequence("past_categories", shares="category", max_length=HISTORY),
    ]


Make = Callable[[], tuple[pa.Table, list[Feature]]]
CASES: dict[str, tuple[Make, str | None, int]] = {
    "39 integers": (integers, None, BATCH),
    "26 strings, 13 numbers": (strings, None, BATCH),
    "requests, histories of 100": (histories, "request", 256),
}


def prepare(folder: Path, make: Make) -> None:
    """Data and fitted features in a folder."""
    table, features = make()
    table = table.append_column("click", labels(table.num_rows))
    (folder / "train").mkdir(parents=True)
    with pq.ParquetWriter(
        folder / "train" / "part-00000.parquet", table.schema, compression="zstd"
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP)
    schema = Schema(tuple(features), (Task("click"),))
    split = DataSplit(folder / "train")
    fit(schema, split.batches([feature.name for feature in features])).save(folder)


def rate(rows: int, run: Callable[[int], object]) -> float:
    """Rows a second, the median of some epochs after the first."""
    times = []
    for epoch in range(EPOCHS + 1):
        begin = time.process_time()
        run(epoch)
        times.append(time.process_time() - begin)
    return rows / float(np.median(times[1:]))


def memory(field: str) -> float:
    """Megabytes of this process, now (`VmRSS`) or at most (`VmHWM`)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(field + ":")[2].split()[0]) / 1024


def measure(folder: Path, case: str) -> dict[str, float]:
    """All numbers of one case."""
    _, request, batch_size = CASES[case]
    split, fitted = DataSplit(folder / "train"), FittedFeatures.load(folder)
    feed = Feed(
        split, fitted, request, batch_size, 1, candidates=TRAINING_CANDIDATES, lengths=LENGTHS
    )
    for transform in fitted.transforms.values():
        transform.graph()  # makes the lookup tables, which are as large as the vocabularies
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    for epoch in range(2):
        consume(feed.batches(Position(epoch)))
    figures = {"peak MB": memory("VmHWM") - before}
    figures["feed"] = rate(split.rows, lambda epoch: consume(feed.batches(Position(epoch))))

    def tensors(epoch: int) -> None:
        for batch in feed.batches(Position(epoch)):
            block_tensors(batch.blocks)

    figures["as tensors"] = rate(split.rows, tensors)
    first = next(iter(feed))
    parts = (first.inputs, first.labels, first.weights)
    signature = tuple(
        {n: tf.TensorSpec([None] * a.ndim, a.dtype) for n, a in part.items()} for part in parts
    )

    def dataset(epoch: int) -> Iterable[object]:
        def generate() -> Iterable[object]:
            for batch in feed.batches(Position(epoch)):
                yield batch.inputs, batch.labels, batch.weights

        return tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(4)

    figures["tf.data"] = rate(split.rows, lambda epoch: consume(dataset(epoch)))
    files = ds.dataset(folder / "train")
    figures["pyarrow alone"] = rate(
        split.rows, lambda epoch: consume(files.to_batches(feed.column_names, use_threads=False))
    )
    return figures


def consume(items: Iterable[object]) -> None:
    for _ in items:
        pass


def speeds() -> Table:
    """The table of rows a second."""
    table = Table(title="Rows per second of one core", box=None, title_justify="left")
    for column in ("", "rows", "feed", "as tensors", "tf.data", "pyarrow alone", "peak MB"):
        table.add_column(column, justify="right" if column else "left")
    with tempfile.TemporaryDirectory() as folder:
        for case, (make, _, _) in CASES.items():
            place = Path(folder) / case
            prepare(place, make)
            child = [sys.executable, __file__, str(place), case]
            output = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True).stdout
            figures = json.loads(output.splitlines()[-1])
            rows = DataSplit(place / "train").rows
            numbers = [figures[str(column.header)] for column in table.columns[2:]]
            table.add_row(case, f"{rows:,}", *(f"{number:,.0f}" for number in numbers))
    return table


def shuffles() -> Table:
    """The table of shuffle qualities, for ten million rows, from their numbers alone."""
    table = Table(
        title=f"Shuffle beside a perfect one (1.00): batches of {BATCH:,} of 10 M sorted rows",
        box=None,
        title_justify="left",
    )
    for column in ("rows of a row group", "shuffle_rows", "distance moved", "variance of labels"):
        table.add_column(column, justify="right")
    for group in (16_384, ROW_GROUP):
        rows = np.full(10_000_000 // group, group)
        for chunk in (ROW_GROUP, 262_144, 1_048_576, 10_000_000):
            quality = ShuffleQuality.of(Order(rows, 1, chunk), rows, BATCH)
            numbers = quality.displacement, quality.deviation
            table.add_row(f"{group:,}", f"{chunk:,}", *(f"{n:,.2f}" for n in numbers))
    return table


def main() -> None:
    """Prints the tables; with a folder and a case, the numbers of the case."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2])))
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # for the processes of the cases
    console = Console(width=110)
    console.print(speeds())
    console.print(shuffles())


if __name__ == "__main__":
    main()
