"""The market that lives: its log, its memory, its drift, and its tables of features."""

from __future__ import annotations

import itertools
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from pipelines.ingest.data_options import DataOptions, SimulateOptions
from pipelines.ingest.simulate.click_memory import ClickMemory
from pipelines.ingest.simulate.click_model import ClickModel
from pipelines.ingest.simulate.drift import Day
from pipelines.ingest.simulate.living_market import LivingMarket
from pipelines.ingest.simulate.reading import read
from pipelines.ingest.simulate.request_draws import RequestDraws, draw_requests
from pipelines.ingest.simulate.timeline import DAY, HOUR, LOG_START
from pipelines.ingest.simulate.world import DEVICE_NAMES, World
from pipelines.ingest.source import ALL
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.pipelines.ingest.files import read_all, run

SEED = 11
CLICKED = {
    "name": "clicked_items",
    "of": "item_id",
    "by": "user_id",
    "time": "timestamp",
    "where": "click",
}


def of_source(**size: Any) -> pa.Table:
    """The rows of the source."""
    source = read(DataOptions(source="simulate", simulate=SimulateOptions(**size)), SEED)
    return pa.concat_tables(source.parts[ALL][0].read(None)).combine_chunks()


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return of_source(rows=30_000, users=307, days=3)


def test_log_is_in_order_of_time_over_its_days(rows: pa.Table) -> None:
    assert rows.num_rows == 30_000
    number, time = (rows[name].to_numpy() for name in ("request_id", "timestamp"))
    np.testing.assert_array_equal(number, np.arange(30_000) // 5)
    assert (np.diff(time) >= 0).all()
    assert time[0] < LOG_START + 60
    np.testing.assert_allclose(np.bincount((time - LOG_START) // DAY), 10_000, atol=5)
    np.testing.assert_array_equal(rows["hour"].to_numpy(), time % DAY // HOUR)
    assert not {"segment", "category", "clicked_items"} & set(rows.column_names)


def test_pace_decides_the_rows_and_not_the_number_of_days(rows: pa.Table) -> None:
    assert of_source(rows=10_000, users=307, days=1).equals(rows.slice(0, 10_000))


def test_splits_by_time_have_their_shares(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        source="simulate",
        simulate={"rows": 10_007, "days": 3},
        split={"by": "time", "valid": 0.1, "test": 0.2},
    )
    shares = [made["rows"][split] for split in ("train", "valid", "test")]
    np.testing.assert_allclose(shares, [7_000, 1_000, 2_000], atol=10)


def test_pasts_are_the_histories_that_ingest_makes(tmp_path: Path) -> None:
    """With several requests of a user in a second, and clicks beyond the history's length."""
    sizes = {"rows": 120_000, "candidates": 2, "users": 101, "items": 96, "history_length": 7}
    run(
        tmp_path,
        seed=SEED,
        source="simulate",
        simulate={**sizes, "days": 1, "drift": 0},
        histories=[{**CLICKED, "max_length": 7}],
        split={"by": "time", "valid": 0.1, "test": 0.1},
    )
    rows = read_all(tmp_path)
    of_moment = rows.group_by(["user_id", "timestamp"]).aggregate(
        [("request_id", "count_distinct")]
    )
    assert max(of_moment["request_id_count_distinct"].to_pylist()) > 1
    first = rows.take(np.arange(0, rows.num_rows, 2))
    clicked = np.full((first.num_rows, 7), -1)
    for row, past in enumerate(first["clicked_items"].to_pylist()):
        clicked[row, : len(past)] = past
    devices = {name: number for number, name in enumerate(DEVICE_NAMES.to_pylist())}
    requests = RequestDraws(
        np.array([int(user.removeprefix("user-")) for user in first["user_id"].to_pylist()]),
        np.array([devices[name] for name in first["device"].to_pylist()]),
        first["hour"].to_numpy(),
        rows["item_id"].to_numpy().reshape(-1, 2),
        clicked,
    )
    world = World.create(SimulateOptions(**sizes), SEED)
    for name, expected in zip(
        ("click", "conversion"), ClickModel(world, SEED).probabilities(world, requests), strict=True
    ):
        found = rows[f"{name}_probability"].to_numpy().reshape(-1, 2)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_live_market_gives_the_log_however_time_is_cut(rows: pa.Table) -> None:
    market = LivingMarket(SimulateOptions(rows=30_000, users=307), 3, SEED)
    cuts = (LOG_START + np.cumsum([0, 1, 599, 3 * HOUR + 7, 20 * HOUR, 5 * HOUR])).tolist()
    later = market.requests(cuts[-2], cuts[-1])
    parts = []
    for start, stop in itertools.pairwise(cuts):
        requests = market.requests(start, stop)
        parts.append(pa.table(market.rows(requests) | market.outcomes(requests)))
    log = pa.concat_tables(parts)
    assert log.equals(rows.slice(0, log.num_rows))
    assert log["timestamp"][-1].as_py() < cuts[-1] <= rows["timestamp"][log.num_rows].as_py()
    np.testing.assert_array_equal(later.item, requests.item)


def test_memory_holds_the_last_clicks_of_each_user() -> None:
    rng = np.random.default_rng(0)
    memory = ClickMemory(users=5, length=3)
    expected = [deque(maxlen=3) for _ in range(5)]
    for clicks in (0, 1, 2, 13, 3, 7):
        user, item = rng.integers(5, size=clicks), rng.integers(97, size=clicks)
        memory.add(user, item)
        for one, clicked in zip(user, item, strict=True):
            expected[one].append(clicked)
        of = memory.of(np.arange(5))
        assert [[i for i in row if i >= 0] for row in of.tolist()] == [list(e) for e in expected]
        assert (np.diff((of >= 0).astype(int), axis=1) <= 0).all()  # -1 comes last


def _days(drift: float, count: int) -> list[Day]:
    size = SimulateOptions(users=5_003, days=count, drift=drift)
    days = [Day.first(World.create(size, SEED), SEED)]
    while len(days) < count:
        days.append(days[-1].next(SEED))
    return days


def test_nothing_moves_without_drift() -> None:
    first, *_, last = _days(0.0, 3)
    np.testing.assert_array_equal(first.interests, last.interests)
    for name, effect in first.world.effects.items():
        np.testing.assert_array_equal(effect, last.world.effects[name])


def test_drift_moves_effects_and_keeps_their_variance() -> None:
    days = _days(0.6, 60)
    changed = (days[0].interests != days[1].interests).any(axis=1).mean()
    np.testing.assert_allclose(changed, 0.6 * (1 - 1 / 64), atol=0.02)
    for name, first in days[0].world.effects.items():
        later = np.stack([day.world.effects[name] for day in days])
        if name in ("hour", "similar"):
            assert (later == first).all()
            continue
        np.testing.assert_allclose((later**2).mean() / (first**2).mean(), 1, atol=0.35)
        follows = np.corrcoef(later[:-1].ravel(), later[1:].ravel())[0, 1]
        np.testing.assert_allclose(follows, 0.8, atol=0.06)


def test_effects_of_the_second_day_say_less_on_the_seventh() -> None:
    size = SimulateOptions(days=7)
    days = [Day.first(World.create(size, SEED), SEED)]
    while len(days) < 7:
        days.append(days[-1].next(SEED))
    model = ClickModel(days[0].world, SEED)
    rng = np.random.default_rng(0)
    requests = draw_requests(days[6].world, rng, 4_001)
    new, old = (model.probabilities(day.world, requests)[0].ravel() for day in (days[6], days[1]))
    click = rng.random(new.shape) < new
    assert roc_auc_score(click, new) - roc_auc_score(click, old) > 0.02


def test_tables_of_the_source_join_users_and_items(tmp_path: Path) -> None:
    schema = Schema(
        (
            Categorical("age_group", side="context"),
            Categorical("item_id", dtype="int64"),
            Categorical("brand"),
            Numeric("price"),
            Sequence("clicked_items", dtype="int64", shares="item_id"),
        ),
        (Task("click"),),
    )
    run(
        tmp_path,
        schema,
        SEED,
        source="simulate",
        simulate={"rows": 3_001, "users": 53, "items": 97, "days": 2},
        histories=[CLICKED],
        users={"key": "user_id"},
        items={"key": "item_id", "negatives": 3},
        split={"by": "time", "valid": 0.1, "test": 0.1},
    )
    rows = read_all(tmp_path)
    market = LivingMarket(SimulateOptions(rows=3_001, users=53, items=97), 2, SEED)
    for table, key, names in (
        (market.users(), "user_id", ["age_group"]),
        (market.items(), "item_id", ["brand", "price"]),
    ):
        assert len(table) == (53 if key == "user_id" else 97)
        by_id = {of[key]: of for of in table.to_pylist()}
        for name in names:
            expected = [by_id[one][name] for one in rows[key].to_pylist()]
            found = rows[name].to_pylist()
            assert [None if x is None else pytest.approx(x) for x in expected] == found
    assert pq.read_table(tmp_path / "users.parquet").num_rows == 53
