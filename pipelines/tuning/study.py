"""Runs the trials of a search, one after the other; finished trials are kept."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

from pipelines import training
from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation
from pipelines.training.stopping import Diverged
from pipelines.tuning.objective import SearchObjective, on_validation
from pipelines.tuning.search import LoadedSearch, Range, Settings
from pipelines.workflow.quiet_run import run_quietly, training_seconds
from serving.state.errors import DataError


class Trial(NamedTuple):
    """A trained model with some settings.

    Attributes:
        number: From 1 on.
        settings: Values by key of the experiment.
        value: The metric; None: the model cannot be built, or its training diverged.
        seconds: Of its training.
        problem: Why there is no value.
    """

    number: int
    settings: Settings
    value: float | None = None
    seconds: float = 0.0
    problem: str = ""


class Study:
    """The trials of a search.

    Args:
        loaded: The search.
        objective: Its metric.
        folder: A folder for the run folders.
        console: Shows a line for each trial; the steps write into `log.txt` of the run folder.

    Raises:
        PipelineError: Optuna is not installed.
    """

    def __init__(
        self, loaded: LoadedSearch, objective: SearchObjective, folder: Path, console: Console
    ) -> None:
        self._optuna = _optuna()
        self._loaded = loaded
        self._objective = objective
        self._folder = folder
        self._console = console
        self._shared: Path | None = None

    def run(self) -> Iterator[Trial]:
        """Trains and evaluates, and yields each trial.

        The settings of a trial are drawn with a seed of its own, from the results of those before
        it. So an interrupted search draws the same settings again, and skips their finished runs.

        Raises:
            PipelineError: A step fails for another reason than the settings.
        """
        search, ranges = self._loaded.search, self._loaded.ranges
        seed = self._loaded.experiment().seed
        direction = "minimize" if self._objective.is_minimised else "maximize"
        study = self._optuna.create_study(direction=direction)
        by_settings: dict[str, Trial] = {}
        for number in range(1, search.trials + 1):
            study.sampler = self._optuna.samplers.TPESampler(seed=seed + number)
            draw = study.ask()
            settings = {key: _drawn(draw, key, span) for key, span in ranges.items()}
            self._say(f"[{number}/{search.trials}] {in_words(settings)} ...", end=" ")
            same = by_settings.get(json.dumps(settings))
            trial = self._trial(number, settings) if same is None else same._replace(number=number)
            self._say(self._result(trial) if same is None else f"as trial {same.number}")
            by_settings.setdefault(json.dumps(settings), trial)
            failed = self._optuna.trial.TrialState.FAIL if trial.value is None else None
            study.tell(draw, trial.value, state=failed)
            yield trial

    def folder(self, trial: Trial) -> Path:
        """The run folder of a trial."""
        return self._folder / f"trial-{trial.number}"

    def _trial(self, number: int, settings: Settings) -> Trial:
        trial = Trial(number, settings)
        try:
            experiment = on_validation(self._loaded.experiment(settings))
            training.check_model(experiment)
        except DataError as error:
            return trial._replace(problem=str(error))
        try:
            steps = run_quietly(experiment, self.folder(trial), self._shared)
        except Diverged as error:
            return trial._replace(problem=str(error))
        except DataError:
            self._console.print()
            raise
        self._shared = self._shared or steps.run.folder
        value = self._objective.value(Evaluation.read(steps.run.path("evaluate")))
        return trial._replace(value=value, seconds=training_seconds(steps.run.manifest("train")))

    def _result(self, trial: Trial) -> str:
        if trial.value is None:
            return f"failed: {trial.problem}"
        return f"{self._objective} {trial.value:.4f}, {trial.seconds:,.0f} s"

    def _say(self, text: str, end: str = "\n") -> None:
        self._console.print(escape(text), end=end, soft_wrap=True)


def in_words(settings: Settings) -> str:
    """`learning_rate = 0.0031, width = 16`."""
    return ", ".join(f"{key.rpartition('.')[2]} = {short(v)}" for key, v in settings.items())


def short(value: Any) -> str:
    """A value with four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def _drawn(draw: Any, key: str, span: Range) -> Any:
    """The value of a key for a trial."""
    if isinstance(span, tuple):  # by number, as Optuna takes no lists and tables
        return span[draw.suggest_categorical(key, range(len(span)))]
    suggest = draw.suggest_int if span.is_whole else draw.suggest_float
    return suggest(key, *span.ends, log=span.log)


def _optuna() -> Any:
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError:
        raise PipelineError(
            'Optuna is not installed, which `tune` needs: pip install "recsys-attn[tune]".'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
