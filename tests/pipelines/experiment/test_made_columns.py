"""Features of `data.histories` and `data.aggregates` work by their names, or are refused."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.experiment.config import Experiment, load_experiment
from pipelines.features import FittedFeatures
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.steps import Steps
from serving.state.errors import DataError
from serving.state.online.online_state import OnlineState

FILE = """
name = "own"
tasks = [{ name = "click" }]
features = [
  { kind = "categorical", name = "item", dtype = "int64" },
  { kind = "sequence", name = "seen", shares = "item" FIRST },
  { kind = "sequence", name = "prices", dtype = "float32", transform = "quantile" },
  { kind = "sequence", name = "clicked", shares = "item" LAST },
  { kind = "numeric", name = "clicks" },
]
[data]
source = "parquet"
path = "PATH"
request = "request"
histories = [
  { name = "seen", of = "item", by = "user", time = "time", max_length = 7 },
  { name = "prices", of = "price", by = "user", time = "time", max_length = 7 },
  { name = "clicked", of = "item", by = "user", time = "time", where = "click", max_length = 3 },
]
aggregates = [
  { name = "clicks", kind = "count", by = ["user", "item"], time = "time", where = "click" },
]
"""


def rows(count: int = 601) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "request": np.arange(count) // 2,
        "user": rng.integers(11, size=count).repeat(2)[:count],
        "item": rng.integers(13, size=count),
        "time": rng.integers(1000, size=count),
        "price": rng.lognormal(size=count),
        "click": rng.integers(2, size=count),
    }


def experiment(folder: Path, first: str = "", last: str = "", **overrides: Any) -> Experiment:
    pq.write_table(pa.table(rows()), folder / "rows.parquet")
    text = FILE.replace("FIRST", first).replace("LAST", last)
    (folder / "own.toml").write_text(text.replace("PATH", str(folder / "rows.parquet")), "utf-8")
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_experiment(folder / "own.toml", values)


@pytest.mark.parametrize(
    ("first", "last", "groups"),
    [
        ("", "", {"history": 2, "clicked": 1}),
        (', history = "x"', "", {"x": 2, "history": 1}),
        ("", ', history = "history"', {"seen": 2, "history": 1}),
    ],
)
def test_sequences_of_the_same_events_share_a_history(
    tmp_path: Path, first: str, last: str, groups: dict[str, int]
) -> None:
    histories = experiment(tmp_path, first, last).schema_.histories
    assert {name: len(sequences) for name, sequences in histories.items()} == groups
    lengths = {s.name: s.max_length for group in histories.values() for s in group}
    assert lengths == {"seen": 7, "prices": 7, "clicked": 3}


def test_histories_and_aggregates_become_features_by_name(tmp_path: Path) -> None:
    loaded = experiment(tmp_path, model={"name": "mlp", "units": [8]}, training__epochs=1)
    steps = Steps.of(loaded, tmp_path / "run", Console(file=io.StringIO()), force=False)
    for step in (steps.ingest, steps.fit, steps.train, steps.export):
        step()
    train = DataSplit(tmp_path / "run/data/train")
    table = pa.concat_tables(train.batches(train.columns))
    assert table.schema.field("clicks").type == pa.float32()
    assert set(table["clicks"].to_pylist()) >= {0.0, 1.0, 2.0}
    inputs = FittedFeatures.load(tmp_path / "run/features").apply(table, "context")
    assert {name: values.shape[1] for name, values in inputs.items()} == {
        "seen": 7,
        "prices": 7,
        "clicked": 3,
    }
    made, exported = tmp_path / "run/data", tmp_path / "run/export/own/1"
    assert not list(made.glob(".made*"))
    values = []
    for number, folder in enumerate((made / "state", exported / "assets.extra/state")):
        with OnlineState(f"lmdb:{tmp_path}/{number}", folder) as state:
            state.load()
            values.append(state.values({"user": 3, "item": 7}, as_of=1000).context)
    assert values[0] == values[1]
    assert values[0]["clicks"] > 0
    assert len(values[0]["seen"]) == 7
    files = json.loads((exported / "manifest.json").read_text())["files"]
    assert "assets.extra/state/state.json" in files


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"features": [{"kind": "categorical", "name": "clicks"}]},
            r"`features\[0\].kind` of 'clicks': the feature is a column of `data.aggregates`",
        ),
        (
            {"features": [{"kind": "numeric", "name": "seen"}]},
            r"`features\[0\].kind` of 'seen': the feature is a column of `data.histories`",
        ),
        ({"tasks": [{"name": "clicks"}]}, "the label 'clicks' is a column of earlier events"),
        (
            {"features": [{"kind": "sequence", "name": n, "history": "h", "max_length": 9}
                          for n in ("seen", "clicked")]},
            r"'seen' and 'clicked' have history = 'h'.*`where` is None and 'click'",
        ),
        (
            {"data__histories": [], "data__aggregates": [], "training__state_dropout": 0.1},
            r"`training.state_dropout` hides columns .* Add one of them.*state_dropout=0.1",
        ),
    ],
)  # fmt: skip
def test_impossible_features_are_refused(
    tmp_path: Path, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        experiment(tmp_path, **overrides)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"evaluation": {"group": "usr"}}, r"'usr' \(evaluation.group\).*Did you mean 'user'"),
        ({"evaluation": {"group": "seen"}}, r"'seen' \(evaluation.group\) holds lists"),
        (
            {"evaluation": {"baselines": {"old": "clickz"}}},
            r"'clickz' \(evaluation.baselines.old\)",
        ),
        (
            {"evaluation": {"segments": ["seen", ["user", "itm"]]}},
            r"'itm' \(evaluation.segments\[1\]\[1\]\) is missing. Did you mean 'item'",
        ),
        ({"data__request": "seen"}, r"'seen' \(data.request\) is missing"),
        ({"data__split": {"by": "time", "column": "tme"}}, r"'tme' \(data.split.column\)"),
        ({"tasks": [{"name": "buy"}]}, r"'buy' \(label, 0 or 1 or null\) is missing"),
    ],
)
def test_columns_are_checked_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict[str, Any], message: str
) -> None:
    def work(*arguments: Any) -> None:
        raise AssertionError("work has begun")

    module = sys.modules["pipelines.ingest.ingest"]  # its package has a function of that name
    for name in ("MadeColumns", "_write"):
        monkeypatch.setattr(module, name, work)
    loaded = experiment(tmp_path, **overrides)
    steps = Steps.of(loaded, tmp_path / "run", Console(file=io.StringIO()), force=False)
    with pytest.raises(DataError, match=message):
        steps.ingest()


def test_numbers_of_the_evaluation_are_checked(tmp_path: Path) -> None:
    loaded = experiment(tmp_path, evaluation={"ceiling": {"click": "name"}})
    table = pa.table({**rows(), "name": ["a"] * 601})
    pq.write_table(table, tmp_path / "rows.parquet")
    steps = Steps.of(loaded, tmp_path / "run", Console(file=io.StringIO()), force=False)
    with pytest.raises(DataError, match=r"\(evaluation.ceiling.click\): expected numbers"):
        steps.ingest()


def test_ages_without_an_entry_of_their_events_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ages.toml"
    file.write_text("""
    name = "ages"
    tasks = [{ name = "click" }]
    features = [
      { kind = "categorical", name = "item", dtype = "int64" },
      { kind = "sequence", name = "seen", shares = "item" },
      { kind = "sequence", name = "seen_ages", dtype = "int64", transform = "age" },
    ]
    [data]
    source = "parquet"
    path = "rows.parquet"
    histories = [{ name = "seen_ages", of = "time", by = "user", time = "time", ages = true }]
    """)
    message = r"`data.histories` has no entry for 'seen', so they are not one history. Add an entry"
    with pytest.raises(DataError, match=message):
        load_experiment(file)


def test_features_of_made_columns_have_any_name(tmp_path: Path) -> None:
    text = FILE.replace('name = "seen", shares', 'name = "viewed", column = "seen", shares')
    text = text.replace('name = "clicks" }', 'name = "so_far", column = "clicks" }')
    path = tmp_path / "own.toml"
    path.write_text(text.replace("FIRST", "").replace("LAST", "").replace("PATH", "x"), "utf-8")
    histories = load_experiment(path).schema_.histories
    assert [s.name for s in histories["history"]] == ["viewed", "prices"]
    assert [s.max_length for s in histories["history"]] == [7, 7]
    path.write_text(path.read_text("utf-8").replace('"numeric", name', '"categorical", name'))
    with pytest.raises(DataError, match=r"column of `data\.aggregates`, which holds numbers"):
        load_experiment(path)
