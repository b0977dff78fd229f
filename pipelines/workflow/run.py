"""A run folder and its steps; a step with unchanged inputs is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.common.artifacts import (
    DATA,
    EVALUATION,
    FEATURES,
    MANIFEST,
    MODEL,
    atomic_directory,
    commit,
    fingerprint,
    read_json,
    recover,
    versions,
    write_json,
)
from pipelines.common.errors import PipelineError
from pipelines.workflow.differences import changed_files, differences
from serving.state.errors import DataError

Build = Callable[[Path], Mapping[str, Any]]


@dataclass(frozen=True)
class StepSpec:
    """The name of a step, its folder, the steps it reads, and whether it is a command."""

    name: str
    folder: str
    reads: tuple[str, ...] = ()
    is_command: bool = True


STEPS = {
    step.name: step
    for step in (
        StepSpec("ingest", DATA),
        StepSpec("fit", FEATURES, ("ingest",)),
        StepSpec("train", MODEL, ("ingest", "fit")),
        StepSpec("evaluate", EVALUATION, ("ingest", "train")),
        StepSpec("export", "export", ("ingest", "train")),
        # Written by `evaluate` or `skew`.
        StepSpec("statistics", "statistics", ("ingest", "fit"), is_command=False),
    )
}


@dataclass(frozen=True)
class Run:
    """One experiment's run folder.

    Args:
        folder: The run folder.
        settings: The configuration that determines the result of each step.
        seed: Seed of the experiment.
        console: Prints the progress.
        force: Run a step even if nothing has changed.
        files: Reads the stamps of the source files.
    """

    folder: Path
    settings: Mapping[str, Mapping[str, Any]]
    seed: int
    console: Console
    force: bool = False
    files: Callable[[], Mapping[str, str]] = dict
    _checked: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def stamps(self) -> Mapping[str, str]:
        """The stamps of the source files as the command began; a later change is the next's."""
        return self.files()

    def path(self, step: str) -> Path:
        """The folder of a step."""
        return self.folder / STEPS[step].folder

    def manifest(self, step: str) -> dict[str, Any]:
        """The manifest of a finished step, checked against the configuration.

        The check includes all earlier steps; its result is kept until a step runs.

        Raises:
            PipelineError: The step has not run, or not with this configuration or these inputs.
        """
        if step not in self._checked:
            self._checked[step] = self._checked_manifest(step)
        return self._checked[step]

    def _checked_manifest(self, step: str) -> dict[str, Any]:
        folder = self.path(step)
        recover(folder)
        if not (folder / MANIFEST).exists():
            raise PipelineError(
                f"{folder} does not exist yet: run `recsys-attn {step}` first, or all steps."
            )
        manifest = read_json(folder / MANIFEST)
        if manifest.get("config_hash") != self.config_hash(step):
            changes = [
                clause
                for name in (*_before(step), step)
                for clause in self._changes(name, _manifest(self.path(name)))
            ]
            listed = (
                "; ".join(dict.fromkeys(changes)) or "an older recsys-attn recorded no settings"
            )
            raise PipelineError(
                f"{folder} was made with another configuration: {listed}. To keep its values, pass "
                f"{self.folder} instead of the experiment file, without --set; for the new values, "
                f"run `recsys-attn {step}` again, or `recsys-attn run` for all steps."
            )
        before, now = manifest.get("inputs"), self._inputs(step, manifest.get("sources"))
        if before != now:
            changed = [name for name in now if (before or {}).get(name) != now[name]]
            raise PipelineError(
                f"{folder} was made from inputs that have changed since ({', '.join(changed)}): "
                f"run `recsys-attn {step}` again, or all steps."
            )
        return manifest

    def config_hash(self, step: str) -> str:
        """Hash of the settings of a step."""
        return fingerprint(self._settings(step))

    def resume_key(self, step: str, settings: Any, sources: Mapping[str, str]) -> str:
        """Hash that must be unchanged for an interrupted step to resume."""
        return fingerprint([settings, self.seed, self._inputs(step, sources)])

    def execute(
        self,
        step: str,
        build: Build,
        sources: Mapping[str, str] | None = None,
        target: Path | None = None,
        before: Path | None = None,
    ) -> dict[str, Any]:
        """Runs a step, unless its result is up to date.

        Args:
            step: Name of the step.
            build: Writes the step's files into a folder and returns its part of the manifest.
            sources: Hashes of inputs from outside the run folder.
            target: The folder to write; None: the step's own.
            before: The folder to compare settings with; None: `target`.

        Returns:
            The manifest.
        """
        target = target or self.path(step)
        if STEPS[step].is_command and "ingest" in _before(step):
            self._check_files()
        if self.is_current(step, target, sources):
            self._say(step, "unchanged, skipped", target)
            return read_json(target / MANIFEST)
        inputs = self._inputs(step, sources)
        changes = self._changes(step, _manifest(before or target))
        if changes:
            self._say(step, f"settings changed: {'; '.join(changes)}", None)
        elif step == "ingest":
            earlier = _manifest(target).get("sources")
            changes = [] if earlier is None else changed_files(earlier, sources or {})
            if changes:
                self._say(step, f"files changed: {'; '.join(changes)}", None)
        self._say(step, "...", None)
        begin = time.perf_counter()
        with atomic_directory(target) as folder:
            manifest = {
                "step": step,
                "fingerprint": self._fingerprint(step, inputs),
                "config_hash": self.config_hash(step),
                "inputs": inputs,
                "sources": dict(sources or {}),
                "seed": self.seed,
                "settings": self._settings(step),
                "versions": versions(),
                "commit": commit(),
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                **_built(step, build, folder),
            }
            manifest["seconds"] = round(time.perf_counter() - begin, 2)
            write_json(folder / MANIFEST, manifest)
        self._checked.clear()
        self._say(step, f"done in {manifest['seconds']:.1f} s", target)
        return manifest

    def _check_files(self) -> None:
        """Raises the error for source files that changed after they were read.

        Does nothing where the files cannot be listed, such as on another machine.
        """
        manifest = _manifest(self.path("ingest"))
        if self._changes("ingest", manifest):
            return  # its own error: the files of other settings are no changed files
        earlier = manifest.get("sources")
        try:
            now = self.stamps
        except DataError:
            return
        changes = [] if earlier is None else changed_files(earlier, now)
        if changes:
            raise PipelineError(
                f"{self.path('ingest')} was made from files that have changed since: "
                f"{'; '.join(changes)}. Run `recsys-attn ingest` again, or all steps; or put "
                "the files back."
            )

    def is_current(self, step: str, target: Path, sources: Mapping[str, str] | None = None) -> bool:
        """Whether `target` is up to date, so that the step can be skipped."""
        recover(target)
        if self.force or not (target / MANIFEST).exists():
            return False
        expected = self._fingerprint(step, self._inputs(step, sources))
        return _manifest(target).get("fingerprint") == expected

    def _settings(self, step: str) -> dict[str, Any]:
        return {"seed": self.seed, **self.settings[step]}

    def _changes(self, step: str, manifest: Mapping[str, Any]) -> list[str]:
        """The settings that differ from those in a manifest."""
        earlier = manifest.get("settings")
        return [] if earlier is None else differences(earlier, self._settings(step))

    def _inputs(self, step: str, sources: Mapping[str, str] | None) -> dict[str, str]:
        fingerprints = {name: self.manifest(name)["fingerprint"] for name in STEPS[step].reads}
        return fingerprints | dict(sources or {})

    def _fingerprint(self, step: str, inputs: Mapping[str, str]) -> str:
        return fingerprint([step, self.config_hash(step), inputs, versions()])

    def _say(self, step: str, what: str, folder: Path | None) -> None:
        place = "" if folder is None else f"  [dim]{escape(str(folder))}[/dim]"
        self.console.print(f"[bold]{step}[/bold]: {escape(what)}{place}", soft_wrap=True)


def _built(step: str, build: Build, folder: Path) -> Mapping[str, Any]:
    """Builds a step's folder; an error of a library has the step's name as a note."""
    try:
        return build(folder)
    except Exception as error:
        error.add_note(f"step {step}")
        raise


def _before(step: str) -> Iterator[str]:
    """All steps that a step depends on, in order."""
    for read in STEPS[step].reads:
        yield from (*_before(read), read)


def _manifest(folder: Path) -> Mapping[str, Any]:
    """The manifest of a folder; empty if it is missing or damaged."""
    try:
        return read_json(folder / MANIFEST)
    except DataError:
        return {}
