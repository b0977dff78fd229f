"""One call of `refresh`: decides on the canary, then trains, compares and publishes a version."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape

from pipelines.common.artifacts import METRICS, read_json
from pipelines.common.errors import GateError, PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.export.file_list import versions_in
from pipelines.refresh.canary import decide
from pipelines.refresh.history import FOLDER, History, What
from pipelines.refresh.new_rows import NewRows, trained_files
from pipelines.refresh.refresh_steps import RefreshSteps, check_columns, refreshed_keys
from pipelines.refresh.serving_config import write_serving_config
from pipelines.report.gate_words import measured, subject
from pipelines.workflow.steps import Steps


class Refresher:
    """Takes a served run one decision further.

    A call that is interrupted at any point goes on where it was: each step writes its result
    whole, and the history is the only record of the decisions.

    Args:
        base: The steps of the run.
        rows: Folder of the served rows with their outcomes, as `join` writes them.
        overrides: Values by dotted key that replace those of the run.
    """

    def __init__(self, base: Steps, rows: Path, overrides: Mapping[str, Any]) -> None:
        self._base, self._overrides = base, overrides
        self._run, self._rows = base.run.folder.resolve(), rows.resolve()
        self._console: Console = base.console
        self._history = History.of(self._run)
        self._experiment = load_experiment(self._run, dict(overrides))

    def refresh(self) -> None:
        """Decides on the canary, if there is one; else refreshes the stable version."""
        if self._history.stable is None:
            self._add(self._newest_export(), "adopted")
        write_serving_config(self._history, self._exports)
        self._decide()
        self._train()

    def _decide(self) -> None:
        """Promotes the canary, rolls it back, or prints how many rows it still needs."""
        canary = self._history.canary
        if canary is None or canary.behind is None:
            return
        what, why = decide(self._rows, self._experiment, canary.behind, canary)
        if what is None:
            self._say(f"version {canary.version} is the canary: {'; '.join(why)}")
        else:
            self._add(canary.version, what, why)

    def _train(self) -> None:
        """Without a canary, trains a version on the new rows, and publishes or refuses it."""
        stable = self._history.stable
        if stable is None or self._history.canary is not None:
            return
        version, rows = self._next_version(), self._new_rows()
        if rows is None:
            self._say(
                "nothing to train on: a version needs three files of rows on which its chain was "
                "not trained, one of them newer than those of the last version"
            )
            return
        serving = self._steps_of(stable)
        steps = self._new_steps(version, rows, serving)
        self._say(f"version {version}, behind version {stable}")
        for step in (steps.ingest, steps.fit, steps.train):
            step()
        steps.evaluate_beside(serving)
        try:
            steps.evaluate()
        except GateError:
            self._add(version, "refused", _words(steps), stable)
            return
        steps.export()
        self._add(version, "published", _words(steps), stable)
        if not self._experiment.refresh.rows:
            self._decide()

    @property
    def _exports(self) -> Path:
        return self._run / self._base.export_folder.relative_to(self._base.run.folder)

    def _newest_export(self) -> int:
        versions = [int(path.name) for path in versions_in(self._exports)]
        if not versions:
            raise PipelineError(
                f"{self._exports} holds no version: run `recsys-attn export {self._run}` first."
            )
        return max(versions)

    def _next_version(self) -> int:
        """The version that an interrupted call has begun, or a new one."""
        decided = self._history.newest_version
        begun = max((int(path.name) for path in versions_in(self._run / FOLDER)), default=0)
        return begun if begun > decided else max(decided, self._newest_export()) + 1

    def _new_rows(self) -> NewRows | None:
        """The rows of the next version; None without newer ones than the last version had."""
        history = self._history
        chain = [history.folder(version) for version in history.chain(history.stable)]
        rows = NewRows.choose(self._rows, trained_files(chain))
        last = NewRows.load(history.folder(history.newest_version))
        return None if rows and last and last.test[-1] == rows.test[-1] else rows

    def _new_steps(self, version: int, rows: NewRows, serving: Steps) -> RefreshSteps:
        folder = self._run / FOLDER / str(version)
        columns = pq.read_schema(self._rows / rows.test[-1]).names
        check_columns(serving, columns)
        rows.save(folder)
        changed = refreshed_keys(
            self._experiment,
            rows.paths(self._rows),
            columns,
            serving.run.folder,
            folder,
            self._base.request,
        )
        experiment = load_experiment(self._run, {**self._overrides, **changed})
        steps = RefreshSteps.of(experiment, folder, self._console, False)
        return dataclasses.replace(steps, version=version, exports=self._exports)

    def _steps_of(self, version: int) -> Steps:
        folder = self._history.folder(version)
        return Steps.of(load_experiment(folder), folder, self._console, False)

    def _add(
        self, version: int, what: What, why: Sequence[str] = (), behind: int | None = None
    ) -> None:
        """Writes a decision, then what the server reads, and says it."""
        self._history = self._history.add(version, what, why, behind)
        write_serving_config(self._history, self._exports)
        details = f": {'; '.join(one.rstrip('.') for one in why)}" if why else ""
        self._say(f"version {version} is {what}{details}")

    def _say(self, what: str) -> None:
        self._console.print(f"[bold]refresh[/bold]: {escape(what)}", soft_wrap=True)


def _words(steps: Steps) -> tuple[str, ...]:
    """The gates of an evaluation with their numbers."""
    gates = read_json(steps.run.path("evaluate") / METRICS)["gates"]
    return tuple(f"{subject(gate)} is {measured(gate)} ({gate['result']})" for gate in gates)
