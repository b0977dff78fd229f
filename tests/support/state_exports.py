"""A small trained model whose features come from earlier rows, and the state after them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.commands import invoke

NEWEST = 1_700_000_000
EXPERIMENT = """
name = "live"
tasks = [{{ name = "click" }}]
features = [
  {{ kind = "categorical", name = "item", dtype = "int64" }},
  {{ kind = "sequence", name = "clicked", shares = "item" }},
  {{ kind = "sequence", name = "ages", dtype = "float32", transform = "age" }},
  {{ kind = "numeric", name = "item_ctr" }},
  {{ kind = "numeric", name = "pair_seen" }},
  {{ kind = "numeric", name = "user_clicks", side = "context" }},
  {{ kind = "categorical", name = "country", side = "context" }},
  {{ kind = "numeric", name = "height", side = "context" }},
]
[data]
source = "parquet"
path = "{folder}/rows.parquet"
request = "request"
time_unit = "s"
split = {{ by = "time", column = "time", valid = 0.1, test = 0.1 }}
histories = [
  {{ name = "clicked", of = "item", {clicks}, max_length = 7 }},
  {{ name = "ages", of = "time", ages = true, {clicks}, max_length = 7 }},
]
aggregates = [
  {{ name = "item_ctr", kind = "rate", of = "click", by = "item", time = "time" }},
  {{ name = "pair_seen", kind = "count", by = ["user", "item"], time = "time" }},
  {{ name = "user_clicks", kind = "count", {clicks}, window = 86_400 }},
]
users = {{ key = "user", path = "{folder}/users.parquet" }}
[model]
name = "din"
width = 4
mlp_units = [8]
[training]
epochs = 1
batch_size = 64
state_dropout = 0.05
"""
CLICKS = 'by = "user", time = "time", where = "click"'


def rows(requests: int = 211, seed: int = 0) -> pa.Table:
    """Requests of three candidates, one each minute, up to `NEWEST`."""
    rng = np.random.default_rng(seed)
    request = np.repeat(np.arange(requests), 3)
    return pa.table(
        {
            "request": request,
            "user": np.repeat(rng.integers(13, size=requests), 3).astype(str),
            "item": rng.integers(17, size=3 * requests),
            "time": NEWEST - 60 * (requests - 1 - request),
            "click": rng.integers(2, size=3 * requests),
        }
    )


def users() -> pa.Table:
    """Features of most users that do not change from event to event."""
    numbers = range(11)
    return pa.table(
        {
            "user": [str(number) for number in numbers],
            "country": [("fi", "se", "öst")[number % 3] for number in numbers],
            "height": [1.5 + 0.03 * number for number in numbers],
        }
    )


def later_rows(requests: int = 97) -> pa.Table:
    """Requests after `NEWEST` with three new items, and with the country that a server used."""
    log = rows(requests, seed=1)
    shifted = {"request": 10_000, "time": 60 * requests, "item": 3}
    for name, more in shifted.items():
        column = pa.array(log[name].to_numpy() + more)
        log = log.set_column(log.column_names.index(name), name, column)
    return log.append_column("country", pa.array(["xx"] * len(log)))


def write_experiment(folder: Path, log: pa.Table) -> None:
    """Writes the rows, the users and the experiment `live.toml`."""
    pq.write_table(log, folder / "rows.parquet")
    pq.write_table(users(), folder / "users.parquet")
    (folder / "live.toml").write_text(EXPERIMENT.format(folder=folder, clicks=CLICKS), "utf-8")


def write_state_export(folder: Path) -> None:
    """Writes the rows, the users, and the run `run` with its export `run/export/live`."""
    write_experiment(folder, rows())
    for step in ("ingest", "fit", "train", "export"):
        result = invoke(step, folder / "live.toml", "--run-dir", folder / "run")
        assert result.exit_code == 0, result.output
