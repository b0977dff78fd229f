"""One column as several features, through every step: as if the data had it once for each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from serving.state.online.load import load_state
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from tests.integration.commands import invoke
from tests.support.state_exports import CLICKS, rows, users

pytestmark = pytest.mark.thorough  # tests/pipelines/features/test_columns.py has the core of it
# By the name of a feature, the column of another feature that it reads too.
COLUMNS = {
    "hour_number": "hour",
    "item_hash": "item",
    "cost_bucket": "cost",
    "brand_hash": "brand",
    "height_bucket": "height",
    "ctr_bucket": "item_ctr",
    "clicked_hash": "clicked",
    "age_bucket": "ages",
}
FEATURES: list[dict[str, Any]] = [
    {"kind": "categorical", "name": "hour", "dtype": "int64", "side": "context"},
    {"kind": "numeric", "name": "hour_number", "side": "context"},
    {"kind": "categorical", "name": "item", "dtype": "int64"},
    {"kind": "categorical", "name": "item_hash", "dtype": "int64",
     "transform": {"kind": "hash", "buckets": 5}},
    {"kind": "numeric", "name": "cost"},
    {"kind": "categorical", "name": "cost_bucket", "dtype": "float32", "transform": "quantile"},
    {"kind": "categorical", "name": "brand"},
    {"kind": "categorical", "name": "brand_hash", "transform": {"kind": "hash", "buckets": 3}},
    {"kind": "numeric", "name": "height", "side": "context"},
    {"kind": "categorical", "name": "height_bucket", "dtype": "float32", "side": "context",
     "transform": "quantile"},
    {"kind": "numeric", "name": "item_ctr"},
    {"kind": "categorical", "name": "ctr_bucket", "dtype": "float32", "transform": "quantile"},
    {"kind": "sequence", "name": "clicked", "shares": "item"},
    {"kind": "sequence", "name": "clicked_hash", "shares": "item_hash"},
    {"kind": "sequence", "name": "ages", "dtype": "float32", "transform": "age"},
    {"kind": "sequence", "name": "age_bucket", "dtype": "float32", "transform": "quantile"},
]  # fmt: skip
MADE = [
    ("histories", "clicked", f'of = "item", {CLICKS}, max_length = 7'),
    ("histories", "ages", f'of = "time", ages = true, {CLICKS}, max_length = 7'),
    ("aggregates", "item_ctr", 'kind = "rate", of = "click", by = "item", time = "time"'),
]
EXPERIMENT = """
name = "live"
tasks = [{{ name = "click" }}]
features = [
{features}]
[data]
source = "parquet"
path = "{folder}/rows.parquet"
request = "request"
time_unit = "s"
split = {{ by = "time", column = "time", valid = 0.1, test = 0.1 }}
items = {{ key = "item", path = "{folder}/items.parquet" }}
users = {{ key = "user", path = "{folder}/users.parquet" }}
{made}
[model]
name = "din"
width = 4
mlp_units = [8]
[training]
epochs = 1
batch_size = 64
state_dropout = 0.05
[evaluation]
slices = true
importance_rows = 50
attention_rows = 0
relevance_rows = 0
"""


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(of)}' for key, of in value.items())} }}"
    return json.dumps(value)


def write(folder: Path, twice: bool) -> Path:
    """Writes the data and the experiment, whose columns are there once, or `twice`."""
    folder.mkdir()
    log = rows()
    log = log.append_column("hour", pa.array(log["request"].to_numpy() % 24))
    items = np.arange(15)
    brands = pa.array([None if n == 5 else f"b{n % 4}" for n in items])
    tables = {
        "rows": log,
        "users": users(),
        "items": pa.table({"item": items, "brand": brands, "cost": items * 0.7 - 3}),
    }
    names = {name: [name] for _, name, _ in MADE}
    for twin, column in COLUMNS.items() if twice else ():
        if column in names:
            names[column].append(twin)
        for key, table in tables.items():
            if column in table.column_names:
                tables[key] = table.append_column(twin, table[column])
                break
    for key, table in tables.items():
        pq.write_table(table, folder / f"{key}.parquet")
    columns = {} if twice else COLUMNS
    of_columns = [
        {**f, "column": columns[f["name"]]} if f["name"] in columns else f for f in FEATURES
    ]
    made = [
        f'[[data.{table}]]\nname = "{twin}"\n' + options.replace(", ", "\n")
        for table, name, options in MADE
        for twin in names[name]
    ]
    path = folder / "live.toml"
    features = "".join(f"  {_toml(feature)},\n" for feature in of_columns)
    filled = {"folder": folder, "features": features, "made": "\n".join(made)}
    path.write_text(EXPERIMENT.format(**filled), "utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The finished runs with each column once, and twice."""
    folder = tmp_path_factory.mktemp("columns")
    for name, twice in (("once", False), ("twice", True)):
        path = write(folder / name, twice)
        result = invoke("run", path, "--run-dir", folder / name / "run")
        assert result.exit_code == 0, result.output
    return folder / "once", folder / "twice"


def test_scores_are_those_of_columns_written_twice(runs: tuple[Path, Path]) -> None:
    once, twice = (pq.read_table(run / "run/evaluation/predictions.parquet") for run in runs)
    assert len(np.unique(once["click/score"])) > 30
    np.testing.assert_array_equal(once["click/score"], twice["click/score"])


def test_reports_name_features(runs: tuple[Path, Path]) -> None:
    once, twice = (
        json.loads((run / "run/evaluation/metrics.json").read_text("utf-8")) for run in runs
    )
    names = [feature["name"] for feature in FEATURES]
    assert [feature["name"] for feature in once["features"]] == names
    assert sorted(entry["feature"] for entry in once["drift"]) == sorted(names)
    assert once["drift"] == twice["drift"]
    # What changes places between rows is a column.
    moved = {entry["feature"] for entry in once["tasks"]["click"]["importance"]}
    assert moved == {"hour", "item", "cost", "brand", "height", "item_ctr", "history"}


def test_export_has_each_column_once(runs: tuple[Path, Path]) -> None:
    folder = runs[0] / "run/export/live/1"
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    inputs = manifest["signatures"]["rank"]["inputs"]
    kinds = {"hour": "int64", "item": "int64", "height": "float32", "item_ctr": "float32",
             "clicked": "int64", "ages": "float32"}  # fmt: skip
    assert {name: of["dtype"] for name, of in inputs.items()} == kinds
    assert manifest["items"]["features"] == ["cost", "cost_bucket", "brand", "brand_hash"]
    columns = {of["name"]: of.get("column") for of in manifest["schema"]["features"]}
    assert {name: column for name, column in columns.items() if column} == COLUMNS
    definition = tf.saved_model.load(str(folder)).signatures["rank"]
    assert set(definition.structured_input_signature[1]) == set(kinds)


@pytest.fixture(scope="module")
def log(runs: tuple[Path, Path]) -> tuple[Path, np.ndarray, np.ndarray]:
    """The log of a server of the first export, and the scores of both."""
    scores = []
    for run in runs:
        store = LmdbStore(run / "store")
        load_state(SavedState.open(run / "run/export/live/1/assets.extra/state"), store)
        store.close()
        config = ServerConfig(
            str(run / "run/export/live"),
            port=0,
            state=f"lmdb:{run / 'store'}",
            prediction_log_dir=str(run / "log"),
            prediction_log_sampling_rate=1.0,
        )
        server, port = create_server(config)
        server.start()
        items = [3, 11, None, 99]
        candidates = [
            {"item": item, **({"item_hash": item} if run == runs[1] else {})} for item in items
        ]
        with Client(f"localhost:{port}", model="live", timeout=60) as client:
            for user, hour in (("5", 7), ("7", None)):
                context = {"user": user, "hour": hour}
                context |= {"hour_number": hour} if run == runs[1] else {}
                scores.append(client.rank(context, candidates)["click"])
        server.stop()
    return runs[0] / "log", np.concatenate(scores[:2]), np.concatenate(scores[2:])


def test_requests_have_each_column_once(log: Any) -> None:
    _, once, twice = log
    assert len(np.unique(once)) > 4
    np.testing.assert_array_equal(once, twice)


def test_log_is_joined_by_columns(runs: tuple[Path, Path], log: Any, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    late = {"user": "5", "item": 3, "time": 2**33, "click": 1}
    (tmp_path / "events/clicks.jsonl").write_text(json.dumps(late) + "\n", "utf-8")
    result = invoke(
        *("join", log[0], "--run", runs[0] / "run", "--outcomes", tmp_path / "events"),
        *("--window", "30m", "--output", tmp_path / "rows"),
    )
    assert result.exit_code == 0, result.output
    joined = pq.read_table(next((tmp_path / "rows").glob("*.parquet")))
    assert {"hour", "item", "cost", "brand", "height"} < set(joined.column_names)
    assert not COLUMNS.keys() & set(joined.column_names)
    np.testing.assert_array_equal(joined["served_score_click"], log[1])


def test_log_is_scored_again(runs: tuple[Path, Path], log: Any, tmp_path: Path) -> None:
    run = shutil.copytree(runs[0] / "run", tmp_path / "run")
    result = invoke("skew", runs[0] / "live.toml", "--run-dir", run, "--log", log[0])
    skew = json.loads((run / "skew.json").read_text("utf-8"))
    assert skew["recomputed"]["tasks"]["click"]["rows"] == len(log[1]), result.output
    assert skew["recomputed"]["over"] == 0
    assert skew["unreadable"] == {}
    assert set(skew["features"]) == {feature["name"] for feature in FEATURES}


def test_batch_scores_need_each_column_once(runs: tuple[Path, Path], tmp_path: Path) -> None:
    rows = pq.read_table(next((runs[0] / "run/data/test").glob("*.parquet")))
    pq.write_table(rows.drop_columns(["click", "height", "cost", "brand"]), tmp_path / "rows")
    arguments = ("--run-dir", runs[0] / "run", "--output", tmp_path / "scores")
    result = invoke("score", runs[0] / "live.toml", *arguments, "--input", tmp_path / "rows")
    assert result.exit_code == 0, result.output
    expected = pq.read_table(runs[0] / "run/evaluation/predictions.parquet")["click/score"]
    scores = pq.read_table(tmp_path / "scores")["click_score"]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
