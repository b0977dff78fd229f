"""An entry with lists is the same as one entry for each of its columns."""

import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.features_over_time import features_over_time
from pipelines.ingest.ingest import ingest
from pipelines.storage.dataset import DataSplit
from serving.state.saved import SavedState

HEAD = """
name = "many"
tasks = [{ name = "click" }, { name = "buy" }]
features = [
  { kind = "categorical", name = "user", dtype = "int64", side = "context" },
  { kind = "categorical", name = "item", dtype = "int64" },
  { kind = "categorical", name = "shop", dtype = "int64" },
]
[data]
source = "parquet"
path = "PATH"
"""
LISTS = """
features_over_time = true
aggregates = [
  { kind = "rate", of = ["click", "buy"], by = [["user"], ["user", "item"]], time = "time" },
  { name = "n_{by}", kind = "count", by = [["item"], ["shop"]], time = "time", window = 31 },
  { kind = "distinct", of = "item", where = "click", by = "user", time = "time", last = 3 },
]
histories = [
  { name = "{of}s_{by}", of = ["item", "shop"], by = [["user"]], time = "time", where = "buy" },
]
"""
RATE: dict[str, Any] = {"kind": "rate", "time": "time"}
COUNT: dict[str, Any] = {"kind": "count", "time": "time", "window": 31}
NUMBERS: list[dict[str, Any]] = [
    {**RATE, "name": "click_rate_by_user", "of": "click", "by": "user"},
    {**RATE, "name": "click_rate_by_user_item", "of": "click", "by": ["user", "item"]},
    {**RATE, "name": "buy_rate_by_user", "of": "buy", "by": "user"},
    {**RATE, "name": "buy_rate_by_user_item", "of": "buy", "by": ["user", "item"]},
    {**COUNT, "name": "n_item", "by": "item"},
    {**COUNT, "name": "n_shop", "by": "shop"},
    {"kind": "distinct", "of": "item", "where": "click", "by": "user", "time": "time", "last": 3}
    | {"name": "item_click_distinct_by_user_last_3"},
]
LISTED = [
    {"name": f"{of}s_user", "of": of, "by": "user", "time": "time", "where": "buy"}
    for of in ("item", "shop")
]
OF_CONTEXT = ("click_rate_by_user", "buy_rate_by_user", "item_click_distinct_by_user_last_3")
LONG_TAILED = ("n_item", "n_shop", "item_click_distinct_by_user_last_3")


def _load(folder: Path, data: str, **overrides: Any) -> Experiment:
    text = HEAD.replace("PATH", str(folder / "rows.parquet")) + data
    (folder / "many.toml").write_text(text, "utf-8")
    return load_experiment(folder / "many.toml", overrides)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Experiment]:
    """An experiment with lists, and one with an entry for each column and for each feature."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    ids = {name: rng.integers(size, size=211) for name, size in [("user", 7), ("item", 5)]}
    labels = {name: rng.integers(2, size=211) for name in ("click", "buy")}
    rows = {**ids, "shop": ids["item"] % 3, "time": rng.integers(97, size=211), **labels}
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    lists = _load(folder, LISTS)
    numbers = [
        {"kind": "numeric", "name": entry["name"]}
        | ({"side": "context"} if entry["name"] in OF_CONTEXT else {})
        | ({"transform": ["log1p", "standardise"]} if entry["name"] in LONG_TAILED else {})
        for entry in NUMBERS
    ]
    sequences = [
        {"kind": "sequence", "name": entry["name"], "shares": entry["of"]} for entry in LISTED
    ]
    features = tomllib.loads(HEAD)["features"] + numbers + sequences
    keys = {"data.aggregates": NUMBERS, "data.histories": LISTED, "features": features}
    return lists, _load(folder, "", **keys)


def test_lists_are_the_same_experiment(both: tuple[Experiment, Experiment]) -> None:
    lists, single = (experiment.resolved for experiment in both)
    assert lists["data"].pop("features_over_time")
    assert not single["data"].pop("features_over_time")
    assert lists == single


def test_lists_give_the_same_rows_and_the_same_state(
    both: tuple[Experiment, Experiment], tmp_path: Path
) -> None:
    for name, experiment in zip("ab", both, strict=True):
        ingest(experiment.data, experiment.schema_, 0, tmp_path / name)
    for split in ("train", "valid", "test"):
        tables = [
            pa.concat_tables(DataSplit(tmp_path / name / split).batches(split_columns(both[1])))
            for name in "ab"
        ]
        assert tables[0].num_rows
        assert tables[0].equals(tables[1])
    states = [SavedState.open(tmp_path / name / "state").definition for name in "ab"]
    assert states[0].fingerprint == states[1].fingerprint
    assert states[0].to_dict() == states[1].to_dict()


def split_columns(experiment: Experiment) -> list[str]:
    """The features, and all columns that ingest makes."""
    names = [feature.name for feature in experiment.features]
    return list(dict.fromkeys(itertools.chain(names, experiment.data.made)))


def test_a_run_folder_keeps_the_long_form(
    both: tuple[Experiment, Experiment], tmp_path: Path
) -> None:
    (tmp_path / "experiment.json").write_text(json.dumps(both[0].resolved), "utf-8")
    assert load_experiment(tmp_path).resolved == both[0].resolved


def test_an_entry_of_features_takes_the_place_of_a_made_one(tmp_path: Path) -> None:
    entry = '{ kind = "numeric", name = "n_item", transform = [], width = 3 },\n]\n[data]'
    (tmp_path / "many.toml").write_text(HEAD.replace("]\n[data]", entry) + LISTS, "utf-8")
    features = load_experiment(tmp_path / "many.toml").features
    assert [(f.transform, f.width) for f in features if f.name == "n_item"] == [((), 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('[["user"], ["user", "item"]]', '["user", ["user", "item"]]'),
            r"`data.aggregates\[0\].by`: .* Write several keys as \[\[\"user\"\], \[\"user\", ",
        ),
        (('"n_{by}"', '"n"'), r"`data.aggregates\[1\].name`: .* make 2 columns; .*\['n', 'n'\]"),
        (('["click", "buy"]', '["buy", "buy"]'), r"`data.aggregates\[0\].name`: .*4 columns"),
        (("last = 3", "last = 0"), r"`data.aggregates\[2\].last`: expected at least 1"),
        (('["click", "buy"]', '["click", 3]'), r"`data.aggregates\[0\].of`: expected a string"),
        (('["item", "shop"]', '["item", "time"]'), r"history 'times_user' lists 'time', which is"),
        (
            ('["item", "shop"]', "[]"),
            r"`data.histories\[0\].of` .*expected a string. Received: \[\]",
        ),
        (("window = 31", "windw = 31"), r"`data.aggregates\[1\].windw` of 'n_{by}' is not a known"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_errors_name_the_entry_of_the_file(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "many.toml").write_text(HEAD + LISTS.replace(*change), "utf-8")
    with pytest.raises(PipelineError, match=message) as error:
        load_experiment(tmp_path / "many.toml")
    assert len(str(error.value).splitlines()) == 1


def test_features_over_time_need_columns(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="`features_over_time` belongs to `histories` and"):
        _load(tmp_path, "features_over_time = true")


def test_features_over_time_know_features_by_their_columns() -> None:
    features = [
        {"kind": "categorical", "name": "item_hash", "column": "item"},
        {"kind": "numeric", "name": "user_number", "column": "user", "side": "context"},
    ]
    data = {
        "features_over_time": True,
        "histories": [{"name": "seen", "of": "item", "by": "user"}],
        "aggregates": [{"name": "clicks", "kind": "mean", "by": "user"}],
    }
    number, sequence = features_over_time(data, features)
    assert number["side"] == "context"
    assert sequence["shares"] == "item_hash"
