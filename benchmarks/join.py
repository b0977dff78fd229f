"""The join of a prediction log with outcomes: rows a second and peak memory.

    python -m benchmarks.join --candidates 1000000

The requests of a few hours have 100 candidates each, two features of a candidate, one of the
context and a history of 20 items; one candidate in 50 is clicked. `start` is a join of 10,000
candidates: what the process needs for its libraries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

START = 10_000  # candidates
T, S, HOURS = 100, 20, 4
WINDOW = 1800
BEGIN = 490_000 * 3600
USERS, ITEMS = 20_000, 50_000


def write(folder: Path, candidates: int) -> None:
    """Writes a log, outcomes and transforms."""
    from tensorflow_serving.apis import prediction_log_pb2

    from pipelines.features.fit import fit
    from serving.encoding.codec import encode
    from serving.observability.prediction_log.log_files import LogFiles, Row

    rng = np.random.default_rng(0)
    files, clicks = LogFiles(folder / "log", 2**40), []
    requests = candidates // T
    seconds = np.sort(rng.uniform(0, HOURS * 3600, requests))
    for number, second in enumerate(seconds):
        log = prediction_log_pb2.PredictionLog()
        user = b"user %d" % rng.integers(USERS)
        items = rng.integers(ITEMS, size=(1, T))
        inputs = {
            "item": items,
            "price": rng.random((1, T), np.float32),
            "country": np.array([b"fi"], object),
            "clicked": rng.integers(ITEMS, size=(1, S)),
            "user": np.array([user], object),
        }
        for name, array in inputs.items():
            encode(array, log.predict_log.request.inputs[name], content=True)
        encode(rng.random((1, T), np.float32), log.predict_log.response.outputs["click"])
        at, request = int((BEGIN + second) * 1e6), f"request {number}"
        record = log.SerializeToString()
        files.append(Row(at, request, "live", 1, "Predict", "rank", 5.0, record))
        clicks += [(request, user.decode(), int(i), at + 10**7, 1) for i in items[0, : T // 50]]
    files.finish()
    end = BEGIN + HOURS * 3600 + WINDOW
    clicks.append(("", "", 0, end * 10**6, 1))
    columns = [pa.array(column) for column in zip(*clicks, strict=True)]
    columns[3] = columns[3].cast(pa.timestamp("us"))
    (folder / "events").mkdir()
    names = ["request_id", "user", "item", "time", "click"]
    pq.write_table(pa.table(columns, names), folder / "events/0.parquet")
    table = pa.table(
        {"item": [1, 2], "price": [0.5, 1.0], "country": ["fi", "se"], "clicked": [[1], [2]]}
    )
    (folder / "features").mkdir()
    fit(_schema(), [table]).save(folder / "features")


def measure(folder: Path, first_key: str) -> tuple[int, float, float]:
    """Joins; returns the rows, the seconds and the peak memory in MB."""
    from pipelines.engines import LOCAL
    from pipelines.outcomes.call_log import CallLog
    from pipelines.outcomes.join import JoinSource, join
    from pipelines.outcomes.layout import Layout
    from pipelines.outcomes.outcome_files import OutcomeColumns, files_of
    from pipelines.outcomes.periods import Periods
    from pipelines.outcomes.row_times import RowTimes
    from pipelines.prediction_log.log_folder import LogFolder

    times = RowTimes("time", pa.timestamp("us"), 10**6)
    user = pa.schema([("user", pa.string())])
    layout = Layout("request_id", times, user, _schema().features, ("click",), ("click",))
    keys = pa.schema([(first_key, pa.string()), ("item", pa.int64())])
    log, periods = LogFolder.open(folder / "log"), Periods(WINDOW, times.per_second)
    source = JoinSource(
        CallLog(log, "live", times),
        layout,
        OutcomeColumns(keys, times, "time", ("click",)),
        files_of(folder / "events"),
        periods,
        folder / "features",
        True,
    )
    start = time.perf_counter()
    joined = join(source, folder / f"rows by {first_key}", {}, LOCAL, lambda _: None)
    seconds = time.perf_counter() - start
    rows = sum(hour["rows"] for hour in joined.manifest.hours.values())
    return rows, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=100_000)
    arguments = parser.parse_args()
    table = Table("key", "rows", "seconds", "rows/s", "peak MB")
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for name, size in (("start", START), ("whole", arguments.candidates)):
            where = Path(folder) / name
            where.mkdir()
            write(where, size)
            for key in ("request_id", "user"):
                with processes.Pool(1) as pool:
                    rows, seconds, memory = pool.apply(measure, (where, key))
                label = f"{key}, item" + (" (start)" if name == "start" else "")
                numbers = (
                    f"{rows:,}",
                    f"{seconds:.1f}",
                    f"{rows / seconds:,.0f}",
                    f"{memory:,.0f}",
                )
                table.add_row(label, *numbers)
    Console().print(table)


def _schema() -> Any:
    from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

    features = (
        Categorical("item", dtype="int64"),
        Numeric("price"),
        Categorical("country", "context"),
        Sequence("clicked", shares="item", dtype="int64", max_length=S),
    )
    return Schema(features, (Task("click"),))


if __name__ == "__main__":
    main()
