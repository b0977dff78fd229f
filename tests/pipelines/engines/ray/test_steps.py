"""Aggregates, fitting, scoring and joins have the same bytes with both engines."""

import io
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine, choose_engine
from pipelines.features import fit_split
from pipelines.feed import Feed
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.log_state import LogState
from pipelines.scoring.labelled import Scorers, score_split
from pipelines.scoring.score_files import score
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from tests.pipelines.outcomes.shown import (
    TIMES,
    World,
    beyond,
    random_calls,
    random_events,
    write_events,
    write_log,
)
from tests.support import shop
from tests.support.event_logs import source as of_tables
from tests.support.event_logs import table as events

pytestmark = pytest.mark.xdist_group("ray")
REQUESTS = (1709, 1, 1511, 7, 13)  # of each row group; the large ones fill a sketch
TASKS = [task.name for task in shop.SCHEMA.tasks]


@pytest.fixture
def engine(cluster: str) -> Engine:
    return choose_engine("ray", cluster)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of several row groups."""
    folder = tmp_path_factory.mktemp("rows")
    tables = []
    for seed, requests in enumerate(REQUESTS):
        table = shop.table(requests, seed=seed)
        for name in ("price", "sales", "rating"):
            values = np.random.default_rng(seed).lognormal(size=table.num_rows).astype("float32")
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        tables.append(table)
    shop.write(folder / "a.parquet", tables[:2])
    shop.write(folder / "b.parquet", tables[2:])
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of a run folder that scoring reads."""
    folder = tmp_path_factory.mktemp("run")
    fitted = shop.fitted()
    for name in ("features", "model"):
        (folder / name).mkdir()
    fitted.save(folder / "features")
    shop.model(fitted).save(folder / "model" / "model.keras")
    return folder


def _progress() -> Progress:
    return Progress(Console(file=io.StringIO()))


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_features_are_fitted_to_the_same_bytes(
    engine: Engine, source: Path, tmp_path: Path
) -> None:
    split, done = DataSplit(source), []
    for name, each in (("local", LOCAL), ("ray", engine)):
        (tmp_path / name).mkdir()
        fit_split(shop.SCHEMA, split, each, done.append).save(tmp_path / name)
    assert len(_files(tmp_path / "local")) == 5
    assert _files(tmp_path / "ray") == _files(tmp_path / "local")
    assert done == split.footers.rows.tolist() * 2


@pytest.mark.parametrize(
    "request_column", [pytest.param("request", marks=pytest.mark.thorough), None]
)
def test_rows_are_scored_to_the_same_bytes(
    engine: Engine, source: Path, run: Path, tmp_path: Path, request_column: str | None
) -> None:
    load = partial(load_trained, run, ())
    for name, each in (("local", LOCAL), ("ray", engine)):
        rows = score(source, tmp_path / name, TASKS, load, request_column, _progress(), each)
        assert rows == DataSplit(source).rows
    assert (tmp_path / "ray").read_bytes() == (tmp_path / "local").read_bytes()


def test_labels_and_scores_of_a_split_are_the_same(engine: Engine, source: Path, run: Path) -> None:
    load = partial(load_trained, run, ())
    feed = Feed(DataSplit(source), load()[0], "request")
    found, done = [], []
    for each in (LOCAL, engine):
        found.append(score_split(feed, Scorers(each, load), done.append))
    assert done == DataSplit(source).footers.rows.tolist() * 2
    for local, remote in zip(*found, strict=True):
        assert local.keys() == remote.keys() == set(TASKS)
        for task in TASKS:
            np.testing.assert_array_equal(remote[task], local[task])
    labels, scores = Scorer(load()[1]).score_labelled(feed)
    for task in TASKS:
        np.testing.assert_array_equal(found[0][0][task], labels[task])
        np.testing.assert_allclose(found[0][1][task], scores[task], rtol=0, atol=2e-6)


def test_aggregates_are_the_same_to_the_byte(engine: Engine, tmp_path: Path) -> None:
    aggregates = [
        AggregateOptions(name="ctr", kind="rate", of="click", by="item", time="time"),
        AggregateOptions(name="items", kind="distinct", of="item", by="user", time="time", last=7),
    ]
    columns, states = [], []
    for name, each in (("local", LOCAL), ("ray", engine)):
        (tmp_path / name).mkdir()
        rows = of_tables(events(rows=1009))
        state = LogState()
        made = with_aggregates(rows, aggregates, each, tmp_path / name, state)
        columns.append([table for file in made.parts["all"] for table in file.read(None)])
        definition = StateDefinition(tuple(aggregates), (), pa.schema(state.columns.values()))
        state.save(tmp_path / f"{name}-state", definition)
        states.append(_files(tmp_path / f"{name}-state"))
    assert columns[0] == columns[1]
    assert states[0] == states[1]


def test_joined_hours_have_the_same_bytes(engine: Engine, tmp_path: Path) -> None:
    world = World(tmp_path, TIMES["seconds"], True)
    calls = random_calls(41)
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", [*random_events(3, calls), beyond(calls)], world.times)
    world.join()
    world.join(engine, "ray")
    hours = {path.name: path.read_bytes() for path in world.rows.glob("*.parquet")}
    assert len(hours) > 1
    assert hours == {p.name: p.read_bytes() for p in (world.folder / "ray").glob("*.parquet")}
