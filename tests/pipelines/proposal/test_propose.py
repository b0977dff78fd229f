"""A proposed file is a valid experiment of the log, whose first steps run as it is."""

import io
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.proposal.propose import propose
from pipelines.proposal.roles import NamedRoles
from pipelines.workflow.steps import Steps
from tests.integration.commands import invoke
from tests.pipelines.proposal.logs import feed


def proposal(folder: Path, rows: dict[str, Any], **named: Any) -> tuple[str, Experiment]:
    """The text that is proposed for rows, and its experiment."""
    pq.write_table(pa.table(rows), folder / "feed.parquet")
    text = propose([str(folder / "feed.parquet")], NamedRoles(**named), "recsys-attn features")
    (folder / "feed.toml").write_text(text, "utf-8")
    return text, load_experiment(folder / "feed.toml")


@pytest.fixture(scope="module")
def of_feed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Experiment]:
    return proposal(tmp_path_factory.mktemp("feed"), feed())


def test_each_column_is_a_feature_or_left_out_with_a_reason(
    of_feed: tuple[str, Experiment],
) -> None:
    text, experiment = of_feed
    made = experiment.data.made
    features = {f.name: (f.kind, f.side) for f in experiment.features if f.name not in made}
    assert features == {
        "userId": ("categorical", "context"),
        "video_id": ("categorical", "candidate"),
        "author_id": ("categorical", "candidate"),
        "country": ("categorical", "context"),
        "is_rand": ("numeric", "candidate"),
        "duration": ("numeric", "candidate"),
        "age": ("numeric", "context"),
        "tags": ("categorical", "candidate"),
        "seen": ("sequence", "context"),
    }
    transforms = {f.name: f.transform for f in experiment.features}
    assert transforms["duration"] == ("log1p", "standardise")
    for name, reason in [
        ("watched", "known only afterwards?"),
        ("dwell", "known only afterwards?"),
        ("vector", "no feature is a list of fractions"),
        ("words", "nearly each row has a text of its own"),
        ("seen_on", "it is a time"),
        ("nan", "it has NaN"),
        ("nothing", "it has no values"),
        ("user.zip", "no input can have its name"),
    ]:
        assert f"#   {name}: {reason}" in text


def test_rates_counts_and_histories_are_by_user_item_and_both(
    of_feed: tuple[str, Experiment],
) -> None:
    data = of_feed[1].data
    keys = {tuple(a.keys) for a in data.aggregates}
    assert keys == {("userId",), ("video_id",), ("userId", "video_id"), ("userId", "author_id")}
    assert {a.kind for a in data.aggregates} == {"rate", "count", "since_last"}
    assert {a.of for a in data.aggregates if a.kind == "rate"} == {"is_click", "is_like"}
    assert {(a.kind, a.keys) for a in data.aggregates if a.last} == {("rate", ("userId",))}
    assert [(h.of, h.by, h.where) for h in data.histories] == [
        ("video_id", "userId", "is_click"),
        ("author_id", "userId", "is_click"),
    ]
    assert {*data.made} <= {feature.name for feature in of_feed[1].features}
    assert data.time_unit == "ms"
    assert data.split.by == "time"


def test_a_proposed_file_is_ingested_and_fitted_without_warnings(
    of_feed: tuple[str, Experiment], tmp_path: Path
) -> None:
    output = io.StringIO()
    steps = Steps.of(of_feed[1], tmp_path, Console(file=output, width=300), False)
    steps.ingest()
    steps.fit()
    assert "Feature" not in output.getvalue()


def test_declared_outcomes_are_warned_of_by_fit(tmp_path: Path) -> None:
    rows = {name: feed()[name] for name in ("userId", "is_click", "watched", "duration")}
    text, _ = proposal(tmp_path, rows)
    feature = 'features = [\n  { kind = "numeric", name = "watched" },'
    (tmp_path / "feed.toml").write_text(text.replace("features = [", feature), "utf-8")
    for exclude, warnings in [([], 1), (["watched"], 0)]:
        overrides = {"model.exclude": exclude}
        experiment = load_experiment(tmp_path / "feed.toml", overrides)
        output = io.StringIO()
        steps = Steps.of(experiment, tmp_path / "run", Console(file=output, width=300), True)
        steps.ingest()
        steps.fit()
        assert output.getvalue().count("Feature 'watched' is probably known only") == warnings


def test_without_times_there_are_no_features_over_time(tmp_path: Path) -> None:
    rows = {name: feed()[name] for name in ("userId", "video_id", "is_click", "duration")}
    text, experiment = proposal(tmp_path, rows)
    assert not experiment.data.made
    assert experiment.data.split.by == "hash"
    assert "No features over time: no column tells when a row was. Name it: --time COLUMN" in text


def test_keys_that_do_not_come_again_are_not_counted(tmp_path: Path) -> None:
    rows = feed(1009) | {"userId": np.arange(1009)}
    text, experiment = proposal(tmp_path, rows)
    assert {a.keys for a in experiment.data.aggregates} == {("video_id",)}
    assert not experiment.data.histories
    assert "Most values of userId have one row, so nothing is counted by it." in text


def test_an_experiment_file_keeps_its_data(tmp_path: Path) -> None:
    rows = {name: feed()[name] for name in ("userId", "video_id", "is_click", "shown_at")}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    data = f'source = "parquet"\npath = ["{tmp_path / "rows.parquet"}"]\n'
    split = 'time_unit = "ms"\nsplit = { by = "user", column = "userId", valid = 0.2 }\n'
    made = '[[data.histories]]\nname = "old"\nof = "video_id"\nby = "userId"\ntime = "shown_at"\n'
    path = tmp_path / "a.toml"
    path.write_text(f'name = "mine"\nseed = 7\n[data]\n{data}{split}{made}', "utf-8")
    values = tomllib.loads(propose([str(path)], NamedRoles(), "recsys-attn features"))
    assert (values["name"], values["seed"], values["data"]["split"]["valid"]) == ("mine", 7, 0.2)
    assert [history["name"] for history in values["data"]["histories"]] == ["is_click_{of}_history"]


def test_files_without_features_or_with_bad_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no column can be a feature"):
        proposal(tmp_path, {"click": [0, 1], "x": [1, 1]})
    with pytest.raises(PipelineError, match=r"feature name 'user\.id' cannot name an input"):
        proposal(tmp_path, {"click": [0, 1, 0], "user.id": [1, 1, 2]})


def test_the_command_prints_or_writes_a_new_file(tmp_path: Path) -> None:
    pq.write_table(pa.table(feed(211)), tmp_path / "feed.parquet")
    rows, written = str(tmp_path / "feed.parquet"), tmp_path / "feed.toml"
    printed = invoke("features", rows, "--labels", "is_click, is_like")
    assert invoke("features", rows, "--output", str(written)).exit_code == 0
    assert written.read_text("utf-8") == printed.output
    again = invoke("features", rows, "--output", str(written))
    assert again.exit_code == 1
    assert written.read_text("utf-8") == printed.output
