"""Features over time: rows a second and memory of the pass over a log.

    make bench

A log of a million rows in the order of time, 100,000 users and 20,000 items whose popularity
follows a power law; then the same rows in no order. Each case runs in a process of its own, and
seconds are the processor's. Memory is by how much the pass raises the peak of the process; the
state is what a store continues from, without the keys. Nothing is asserted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from pipelines.engines import LOCAL
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.log_state import LogState
from pipelines.ingest.table_files import read_parquet
from serving.state.definitions.aggregate_options import AggregateOptions

ROWS = 1_000_000
CASES: dict[str, list[dict[str, Any]]] = {
    "count by user": [{"kind": "count", "by": "user"}],
    "rate by item": [{"kind": "rate", "by": "item", "of": "click"}],
    "rate by user and item": [{"kind": "rate", "by": ("user", "item"), "of": "click"}],
    "mean by item, last 50": [{"kind": "mean", "by": "item", "of": "price", "last": 50}],
    "distinct items by user, 7 days": [
        {"kind": "distinct", "by": "user", "of": "item", "window": 604_800.0}
    ],
}
CASES["all five"] = [options for case in CASES.values() for options in case]


def prepare(path: Path, ordered: bool) -> None:
    """The log as Parquet."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "user": rng.integers(100_000, size=ROWS),
            "item": (rng.zipf(1.2, size=ROWS) - 1) % 20_000,
            "time": np.arange(ROWS),
            "price": rng.lognormal(size=ROWS),
            "click": rng.integers(2, size=ROWS),
        }
    )
    pq.write_table(table if ordered else table.take(rng.permutation(ROWS)), path)


def memory(field: str) -> float:
    """Megabytes of this process, now (`VmRSS`) or at most (`VmHWM`)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(field + ":")[2].split()[0]) / 1024


def measure(path: Path, case: str) -> dict[str, float]:
    """Seconds, and megabytes by which the peak rose."""
    aggregates = [
        AggregateOptions(name=f"a{number}", time="time", **options)
        for number, options in enumerate(CASES[case])
    ]
    source = read_parquet(DataOptions(source="parquet", path=str(path)))
    before, start = memory("VmRSS"), time.process_time()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    with tempfile.TemporaryDirectory() as folder:
        state = LogState()
        data = with_aggregates(source, aggregates, LOCAL, Path(folder), state)
        rows = sum(table.num_rows for (file,) in data.parts.values() for table in file.read(None))
    seconds = time.process_time() - start
    raised = memory("VmHWM") - before
    size = sum(
        past.totals.nbytes + past.parts.nbytes + past.time.nbytes for past in state.pasts.values()
    )
    return {"rate": rows / seconds, "memory": raised, "state": size / 2**20}


def main() -> None:
    """Prints the table."""
    table = Table("aggregates", "order", "thousand rows/s", "memory, MB", "state, MB")
    with tempfile.TemporaryDirectory() as folder:
        for order in ("time", "none"):
            path = Path(folder) / f"{order}.parquet"
            prepare(path, ordered=order == "time")
            for case in CASES if order == "time" else ["all five"]:
                command = [sys.executable, "-P", __file__, str(path), case]
                figures = json.loads(subprocess.run(command, stdout=-1, check=True).stdout)
                row = (f"{figures['rate'] / 1e3:,.0f}", f"{figures['memory']:.0f}")
                table.add_row(case, order, *row, f"{figures['state']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2])))
    else:
        main()
