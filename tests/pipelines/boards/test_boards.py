"""A board trains its models with several seeds, and says how they stand to published numbers."""

from __future__ import annotations

import io
import json
import math
import shlex
import shutil
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipelines.boards.board import FOLDER, Board, BoardModel, LoadedBoard, load_board
from pipelines.boards.influences import Influences
from pipelines.boards.remake import chosen, remake
from pipelines.boards.result import verdict
from pipelines.boards.runs import check_shown
from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation
from pipelines.training import check_model
from tests.support import registries
from tests.support.experiments import QUICK, write

ROOT = Path(__file__).parents[3]
BOARDS = sorted(path.stem for path in (ROOT / FOLDER).glob("*.toml"))
SEED = 3  # of the experiment
TEXT = """
title = "Two models"
note = "Simulated clicks | rows."
experiment = "experiment.toml"
tasks = ["click"]
reference = "small"

[[models]]
name = "small"
published = 0.1
source = "nowhere"
set = { "training.epochs" = 1 }

[[models]]
name = "Linear & more"
published = { click = 0.99 }
set = { model = { name = "logistic_regression" }, "training.epochs" = 1 }
"""


def _board(folder: Path, text: str = TEXT) -> LoadedBoard:
    (folder / "two.toml").write_text(text, "utf-8")
    return load_board(str(folder / "two.toml"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    write(folder, QUICK)
    return folder


@pytest.fixture(scope="module")
def printed(place: Path) -> str:
    text = io.StringIO()
    remake(_board(place), (), 2, place / "runs", Console(file=text, width=200))
    return text.getvalue()


def _lines(place: Path, name: str = "board") -> dict[str, Any]:
    found = json.loads((place / f"runs/{name}.json").read_text("utf-8"))["lines"]
    return {line["model"]: line for line in found}


@pytest.mark.usefixtures("printed")
def test_means_and_intervals_are_those_of_the_runs(place: Path) -> None:
    lines = _lines(place)
    runs = {
        name: [Evaluation.read(place / f"runs/{slug}-{seed}/evaluation") for seed in (3, 4)]
        for name, slug in (("small", "small"), ("Linear & more", "linear-more"))
    }
    for name, evaluations in runs.items():
        values = [each.metrics["tasks"]["click"]["auc"] for each in evaluations]
        assert lines[name]["value"] == pytest.approx(mean(values))
        assert lines[name]["spread"] == pytest.approx(stdev(values))
        assert [each.metrics["seed"] for each in evaluations] == [SEED, SEED + 1]
        low, high = lines[name]["interval"]
        assert low < lines[name]["value"] < high
    assert lines["small"]["difference"] is None
    ahead, low, high = lines["Linear & more"]["difference"]
    assert ahead == pytest.approx(lines["Linear & more"]["value"] - lines["small"]["value"])
    assert low < ahead < high


def test_the_table_is_printed_and_written(place: Path, printed: str) -> None:
    assert printed.count("small, seed") == printed.count("Linear & more, seed") == 2
    text = (place / "runs/board.md").read_text("utf-8")
    page = (place / "runs/board.html").read_text("utf-8")
    for shown in (printed, text, page):
        assert "Two models" in shown
        assert "not reproduced" in shown
        assert "better" in shown
        assert "auc; reference: small" in shown
    command = f"recsys-attn reproduce {shlex.quote(str(place / 'two.toml'))} --seeds 2"
    command += f" --run-dir {shlex.quote(str(place / 'runs'))}"
    assert command in text.replace("  \n", "\n").splitlines()[-3]
    assert "Linear &amp; more" in page
    heading = next(line for line in text.splitlines() if line.startswith("| model"))
    assert "task" not in heading  # one task needs no column


@pytest.mark.usefixtures("printed")
def test_finished_runs_are_kept_and_share_their_data(place: Path, tmp_path: Path) -> None:
    data = "data/train/part-00000.parquet"
    one, other = (place / f"runs/{name}-3" / data for name in ("small", "linear-more"))
    assert one.samefile(other)
    shutil.copytree(place / "runs", tmp_path / "runs")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("runs/*/model/manifest.json")}
    assert len(before) == 4
    text = io.StringIO()
    remake(_board(place), ["Linear & more"], 1, tmp_path / "runs", Console(file=text, width=200))
    assert "Without small, the reference" in text.getvalue()
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert len(_lines(tmp_path, "board-part")) == 1
    assert len(_lines(tmp_path)) == 2  # the table of all models stays


@pytest.mark.parametrize("same_rows", [True, False])
def test_seeds_of_the_same_rows_are_not_independent_rows(same_rows: bool) -> None:
    moved = np.random.default_rng(0).normal(size=(2, 50)) / 50
    influences = {"a": (0.7, moved[0]), "b": (0.6, moved[1])}
    one, twice = (
        Influences(
            {name: dict.fromkeys(seeds, each) for name, each in influences.items()},
            {name: {seed: f"{seed * (not same_rows)}" for seed in seeds} for name in influences},
        )
        for seeds in ((1,), (1, 2))
    )
    share = 1 if same_rows else 0.5**0.5
    for found, alone in (
        (twice.interval("a"), one.interval("a")),
        (twice.difference("a", "b"), one.difference("a", "b")),
    ):
        assert found is not None
        assert alone is not None
        width, expected = (ends[-1] - ends[-2] for ends in (found, alone))
        assert width == pytest.approx(share * expected)
    margin = 1.96 * (50 / 49 * np.square(moved[0] - moved[1]).sum()) ** 0.5
    assert one.difference("a", "b") == pytest.approx([0.1, 0.1 - margin, 0.1 + margin], rel=1e-3)
    assert twice.difference("a", "a") is None
    assert twice.difference("a", None) is None


@pytest.mark.parametrize("same_rows", [True, False])
def test_a_difference_is_as_uncertain_as_its_seeds_differ(same_rows: bool) -> None:
    rows = np.zeros(50)  # they say that nothing is uncertain
    seeds = {1: 0.72, 2: 0.70, 3: 0.74}
    found = Influences(
        {"a": {s: (v, rows) for s, v in seeds.items()}, "b": dict.fromkeys(seeds, (0.6, rows))},
        {name: {s: f"{s * (not same_rows)}" for s in seeds} for name in ("a", "b")},
    ).difference("a", "b")
    margin = 4.3027 * 0.02 / 3**0.5  # Student's quantile for three seeds
    assert found == pytest.approx([0.12, 0.12 - margin, 0.12 + margin], rel=1e-4)


def test_models_on_other_rows_have_no_difference() -> None:
    influence = (0.7, np.ones(3))
    apart = Influences({"a": {1: influence}, "b": {1: influence}}, {"a": {1: "x"}, "b": {1: "y"}})
    with pytest.raises(PipelineError, match=r"'a' and its reference 'b' have other test rows"):
        apart.difference("a", "b")


@pytest.mark.parametrize(
    ("value", "changes", "expected"),
    [
        (0.7, {}, "reproduced"),
        (0.7016, {}, "better"),
        (0.6984, {}, "not reproduced"),
        (0.6986, {}, "reproduced"),
        (0.7016, {"metric": "logloss"}, "not reproduced"),
        (0.6984, {"metric": "logloss"}, "better"),
        (0.7016, {"metric": "own", "minimise": True}, "not reproduced"),
        (0.7016, {"metric": "own", "minimise": False}, "better"),
        (0.9, {"not_comparable": "other rows"}, "not comparable: other rows"),
        (0.9, {"published": None}, ""),
    ],
)
def test_a_verdict_follows_the_tolerance(
    value: float, changes: dict[str, Any], expected: str
) -> None:
    of_board = {key: changes.pop(key) for key in ("metric", "minimise") if key in changes}
    model = BoardModel(**{"name": "one", "published": 0.7, **changes})
    board = Board(title="t", experiment="e", models=(model,), **of_board)
    assert verdict(board, model, "click", value) == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "small"', 'name = "Linear & more"', "twice: .'Linear & more'"),
        ('reference = "small"', 'reference = "smal"', "`reference` names 'smal'.*mean 'small'"),
        ("title", "titel", "`titel` is not a known key. Did you mean `title`"),
        ("0.1", '"0.1"', "`models.0..published`: expected a number"),
        ('name = "small"', 'name = "linear more"', "would share the run folder 'linear-more'"),
        ("0.1", "{ clik = 0.1 }", "`published` names 'clik'.*mean 'click'"),
        ('tasks = ["click"]', 'tasks = ["click"]\nminimise = true', "`minimise` is for metrics"),
        ('"training.epochs" = 1 }', '"training.epoch" = 1 }', "model 'small': .*training.epoch"),
        ('tasks = ["click"]', 'tasks = ["clik"]', r"model 'small': `tasks`.*clik.*click"),
        ('tasks = ["click"]', 'tasks = ["click"]\nmetric = "acu"', "`metric`.*acu.*Did you mean"),
        ('tasks = ["click"]', "", r"one number, and the board shows .* click, conversion.*by task"),
        ("[[models]]", "[[models", "two.toml is not valid TOML"),
        (
            'name = "logistic_regression"',
            'name = "pepnet", "tower_units" = [3]',
            "'Linear & more': The model 'pepnet' cannot be built: pepnet needs features",
        ),
    ],
)
def test_a_wrong_board_is_one_sentence(place: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        remake(
            _board(place, TEXT.replace(old, new, 1)),
            [] if "Linear" in new or "pepnet" in new else ["small"],
            1,
            place / "runs",
            Console(file=io.StringIO()),
        )


def test_a_key_of_the_board_holds_beside_the_table_of_a_model(place: Path) -> None:
    """And a model's own key, in its table or alone, comes first."""
    common = 'set = { "model.width" = 6, "training.batch_size" = 9 }\n\n[[models]]'
    models = {
        'model = { name = "dcn" }': (6, 9),
        'model = { name = "dcn", width = 5 }': (5, 9),
        'model = { name = "dcn" }, training = { batch_size = 7 }': (6, 7),
        '"model.width" = 5, "training.batch_size" = 7': (5, 7),
    }
    for own, expected in models.items():
        text = TEXT.replace("[[models]]", common, 1).replace('"training.epochs" = 1', own, 1)
        loaded = _board(place, text)
        experiment = loaded.experiment(loaded.board.models[0])
        found = experiment.model.arguments["width"], experiment.training.batch_size
        assert found == expected


def test_a_plus_gives_another_folder() -> None:
    names = ("AutoInt", "AutoInt+", "a, b+")
    slugs = [BoardModel(name=name).slug for name in names]
    assert slugs == ["autoint", "autoint-plus", "a-b-plus"]


def test_unknown_names_are_suggested(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(PipelineError, match=r"no board 'frape'.*Did you mean 'frappe'"):
        load_board("frape")
    with pytest.raises(PipelineError, match=r"`--model` names 'smal'.*Did you mean 'small'"):
        chosen(_board(place), ["smal"])
    monkeypatch.chdir(place)
    with pytest.raises(PipelineError, match=r"in experiments/boards: none is here"):
        load_board("frappe")


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", BOARDS)
def test_boards_of_the_repository_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("RECSYS_DATA", "data")
    with registries.restored(ROOT / "experiments"):
        loaded = load_board(name)
        for model in loaded.board.models:
            experiment = loaded.experiment(model, 7)
            check_model(experiment)
            check_shown(loaded, model)
            assert experiment.seed == 7
            assert math.isfinite(model.published_for(experiment.tasks[0].name) or 0.5)


@pytest.mark.thorough
def test_models_may_have_some_of_the_tasks(tmp_path: Path) -> None:
    """One of one task, and one whose reference is another one than the board's."""
    write(tmp_path, QUICK)
    text = (
        TEXT.replace('tasks = ["click"]\n', "")
        .replace("published = 0.1\n", "")
        .replace("published = { click = 0.99 }", "")
    )
    text += """
[[models]]
name = "alone"
reference = "Linear & more"
set = { tasks = [{ name = "click" }], "training.epochs" = 1 }
"""
    console = Console(file=io.StringIO(), width=200)
    remake(_board(tmp_path, text), (), 1, tmp_path / "runs", console)
    lines = json.loads((tmp_path / "runs/board.json").read_text("utf-8"))["lines"]
    of_task = {
        task: {line["model"]: line for line in lines if line["task"] == task}
        for task in ("click", "conversion")
    }
    assert list(of_task["click"]) == ["small", "Linear & more", "alone"]
    assert list(of_task["conversion"]) == ["small", "Linear & more"]
    click = of_task["click"]
    expected = click["alone"]["value"] - click["Linear & more"]["value"]
    assert click["alone"]["difference"][0] == pytest.approx(expected)
