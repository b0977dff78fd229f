"""A search trains settings of declared ranges, and compares them by validation rows."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines import training
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.report.results import Evaluation
from pipelines.training.stopping import diverged
from pipelines.tuning import study
from pipelines.tuning.objective import SearchObjective
from pipelines.tuning.search import LoadedSearch, load_search
from pipelines.tuning.study import Study, Trial
from pipelines.tuning.tune import ranked, tune
from pipelines.workflow.steps import Steps
from tests.support.experiments import QUICK, write

TEXT = """
experiment = "experiment.toml"
trials = 1
task = "click"

[ranges]
"training.learning_rate" = { low = 1e-4, high = 1e-2, log = true }
model.width = [4, 6]
"""


def _file(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "search.toml").write_text(text, "utf-8")
    return folder / "search.toml"


def _quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    write(folder, QUICK, ("epochs = 2", "epochs = 1"))
    return folder


def _trials(place: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((place / "runs/tune.json").read_text("utf-8"))[
        "trials"
    ]
    return found


@pytest.fixture(scope="module")
def found(place: Path) -> tuple[list[dict[str, Any]], str]:
    """The trials and the printed text of a search of two trials, in two parts."""
    pytest.importorskip("optuna", reason="Optuna is an extra")
    runs, text = place / "runs", io.StringIO()
    console = Console(file=text, width=200)
    tune(load_search(_file(place)), runs, console)
    before = _trials(place)
    made = {path: path.stat().st_mtime_ns for path in runs.glob("trial-*/model/manifest.json")}
    assert len(made) == 1
    # The test rows are damaged from here on: a trial that reads them fails.
    (rows,) = (runs / "trial-1/data/test").iterdir()
    kept = rows.read_bytes()
    rows.write_bytes(b"damaged")
    tune(load_search(_file(place, ("trials = 1", "trials = 2"))), runs, console)
    rows.write_bytes(kept)
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert _trials(place)[:1] == before
    return _trials(place), text.getvalue()


def test_trials_are_measured_on_validation_rows(place: Path, found: Any) -> None:
    trials, _ = found
    assert [trial["number"] for trial in trials] == [1, 2]
    for trial in trials:
        run = place / f"runs/trial-{trial['number']}"
        metrics = Evaluation.read(run / "evaluation").metrics
        assert metrics["split"] == "valid"
        assert trial["value"] == metrics["tasks"]["click"]["auc"]
        kept = load_experiment(run)
        assert kept.training.learning_rate == trial["settings"]["training.learning_rate"]
        assert kept.model.arguments["width"] == trial["settings"]["model.width"]


def test_the_best_experiment_is_a_trained_run(place: Path, found: Any) -> None:
    trials, printed = found
    best = max(trials, key=lambda trial: trial["value"])
    experiment = load_experiment(place / "runs/best")
    assert experiment.training.learning_rate == best["settings"]["training.learning_rate"]
    assert experiment.evaluation.split == "test"
    steps = Steps.of(experiment, place / "runs/best", _quiet(), force=False)
    for step in ("ingest", "fit", "train"):
        steps.run.manifest(step)  # as this experiment makes it
    lines = printed.split("auc of click of the validation rows; higher is better")[-1].splitlines()
    assert lines[2].split()[:2] == [str(best["number"]), f"{best['value']:.4f}"]


def test_trials_share_their_data(place: Path, found: Any) -> None:
    name = "data/train/part-00000.parquet"
    first, second = (place / f"runs/trial-{number}/{name}" for number in (1, 2))
    assert first.samefile(second)


def _study(place: Path, *changes: tuple[str, str]) -> tuple[LoadedSearch, Study]:
    pytest.importorskip("optuna", reason="Optuna is an extra")
    loaded = load_search(_file(place, *changes))
    return loaded, Study(loaded, SearchObjective.of(loaded), place / "none", _quiet())


def test_an_interrupted_search_draws_the_same_settings(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(_: Study, number: int, settings: dict[str, Any]) -> Trial:
        away = math.log10(settings["training.learning_rate"]) + 3
        return Trial(number, settings, -abs(away))

    monkeypatch.setattr(Study, "_trial", trained)
    short, whole = (
        list(_study(place, ("trials = 1", f"trials = {trials}"))[1].run()) for trials in (11, 22)
    )
    assert whole[:11] == short
    values = [trial.value or 0.0 for trial in whole]
    assert max(values[11:]) > max(values[:6])  # it learns from the results
    widths = {trial.settings["model.width"] for trial in whole}
    assert widths == {4, 6}


def test_settings_that_cannot_be_trained_are_failed_trials(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(experiment: Experiment) -> None:
        if experiment.model.arguments["width"] == 6:
            raise PipelineError("The model cannot be built.")

    def diverges(*_: Any) -> Steps:
        raise diverged("loss nan")

    monkeypatch.setattr(training, "check_model", refuses)
    monkeypatch.setattr(study, "run_quietly", diverges)
    loaded, made = _study(place, ("trials = 1", "trials = 8"))
    trials = list(made.run())
    assert all(trial.value is None for trial in trials)
    problems = {trial.settings["model.width"]: trial.problem for trial in trials}
    assert problems[4].startswith("Training diverged")
    assert problems[6] == "The model cannot be built."
    with pytest.raises(PipelineError, match="All trials failed; the first one: "):
        ranked(trials, SearchObjective.of(loaded))


def test_smaller_is_better_where_the_metric_says_so(place: Path) -> None:
    objective = SearchObjective.of(
        load_search(_file(place, ('"click"', '"click"\nmetric = "logloss"')))
    )
    trials = [Trial(1, {"a": 1}, 0.4), Trial(2, {"a": 2}, 0.2), Trial(3, {"a": 2}, 0.2)]
    assert [trial.number for trial in ranked(trials, objective)] == [2, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trials", "trails", "`trails` is not a known key. Did you mean `trials`"),
        ("trials = 1", 'trials = "1"', '`trials`: expected a whole number. Received: "1"'),
        ("trials = 1", "trials = 0", "`trials`: expected at least 1"),
        ("experiment.toml", "expriment.toml", "expriment.toml does not exist"),
        ('"click"', '"clik"', "`task` names 'clik'.*Did you mean 'click'"),
        ('"click"', '"click"\nmetric = "acu"', "`metric` names 'acu'.*mean 'auc'"),
        ('"click"', '"click"\nmetric = "calibration"', "`metric` names 'calibration'; exp"),
        ("model.width", "model.wdth", "model.wdth = 4: .*`model.wdth` is not a known key"),
        ("[4, 6]", '[4, "6"]', 'model.width = "6": .*expected a whole number'),
        ("[4, 6]", "[4]", "`ranges`, model.width: expected a list of two values or more"),
        ("[4, 6]", "4", "`low` and `high`. Received: 4"),
        ("[4, 6]", "{ low = 4, high = 6.5 }", "width = 4.0: .*expected a whole number"),
        ("[4, 6]", "{ low = 6, high = 4 }", "must be below `high`. Received: low=6 and"),
        (
            "[4, 6]",
            "{ low = 4, high = 6, step = 2 }",
            "model.width.step` is not a known key",
        ),
        ("low = 1e-4", "low = 0.0", "`log = true` needs a `low` above 0. Received: low=0"),
        ("1e-4, high = 1e-2", "1, high = 2", "learning_rate: whole ends give whole"),
        ("model.width", "data.split.valid", "`ranges` names 'data.split.valid'; expected"),
        ("[ranges]", "[ranges", "search.toml is not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_sentence(place: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as error:
        SearchObjective.of(load_search(_file(place, (old, new))))
    assert "\n" not in str(error.value)


def test_without_optuna_the_error_names_the_extra(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(PipelineError, match=r"recsys-attn\[tune\]"):
        tune(load_search(_file(place)), place / "none", _quiet())
