"""Advice on shuffling follows from the labels of the data at hand."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.features.fit import fit
from pipelines.feed import Feed
from pipelines.feed.mixing import Mixing, shuffle_advice
from pipelines.feed.order import Position
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Schema, Task

ROWS, GROUP, BATCH, SHUFFLE = 24_000, 500, 120, 3_000
SCHEMA = Schema((Categorical("item", dtype="int64"),), (Task("click"),))


def feed(folder: Path, label: np.ndarray, request: np.ndarray | None = None) -> Feed:
    table = pa.table({"item": np.arange(ROWS) % 7, "click": label.astype("int8")})
    if request is not None:
        table = table.append_column("request", pa.array(request))
    path = folder / "train" / "part-00000.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, row_group_size=GROUP)
    name = None if request is None else "request"
    batch = BATCH if request is None else BATCH // 10
    fitted = fit(SCHEMA, [table])
    return Feed(DataSplit(path.parent), fitted, name, batch, seed=3, shuffle_rows=SHUFFLE)


def by_time() -> np.ndarray:
    """Labels whose share rises through the file."""
    return np.random.default_rng(0).random(ROWS) < np.linspace(0.05, 0.5, ROWS)


def test_deviation_is_that_of_the_batches(tmp_path: Path) -> None:
    of_data = feed(tmp_path, by_time())
    shares = [
        batch.labels["click"].mean()
        for epoch in range(20)
        for batch in of_data.batches(Position(epoch))
    ]
    share = by_time().mean()
    expected = np.std(shares) / np.sqrt(share * (1 - share) / BATCH)
    mixing = Mixing.read(of_data, SCHEMA.tasks[0])
    found = [mixing.deviation(replace(of_data, seed=seed).order, BATCH) for seed in range(20)]
    assert 1.2 < expected < 2
    np.testing.assert_allclose(np.mean(found), expected, rtol=0.05)


def test_sorted_rows_get_advice_that_helps(tmp_path: Path) -> None:
    of_data = feed(tmp_path, np.sort(by_time()))
    (sentence,) = shuffle_advice(of_data, SCHEMA.tasks)
    found = re.search(
        r"shares of click vary (\d\.\d) times.*`training.shuffle_rows` to ([\d,]+)", sentence
    )
    assert found is not None
    assert float(found[1]) > 1.5
    wanted = int(found[2].replace(",", ""))
    assert SHUFFLE < wanted < 2 * ROWS
    assert shuffle_advice(replace(of_data, shuffle_rows=wanted), SCHEMA.tasks) == []


@pytest.mark.parametrize("rows_of_a_request", [1, 10])
def test_mixed_rows_get_no_advice(tmp_path: Path, rows_of_a_request: int) -> None:
    """Nor do those of requests whose labels are all alike."""
    requests = ROWS // rows_of_a_request
    label = np.repeat(np.random.default_rng(0).random(requests) < 0.3, rows_of_a_request)
    request = np.repeat(np.arange(requests), rows_of_a_request) if rows_of_a_request > 1 else None
    of_data = feed(tmp_path, label, request)
    assert shuffle_advice(of_data, SCHEMA.tasks) == []
    mixing = Mixing.read(of_data, SCHEMA.tasks[0])
    share = label.mean()
    np.testing.assert_allclose(mixing.chance, rows_of_a_request * share * (1 - share), rtol=1e-9)
