"""Joins a prediction log with outcomes, hour by hour."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import locked
from pipelines.engines import Engine
from pipelines.outcomes.call_log import CallLog
from pipelines.outcomes.layout import Layout
from pipelines.outcomes.make_hour import HourMaker, HourTask
from pipelines.outcomes.manifest import MANIFEST, Index, Manifest, contents
from pipelines.outcomes.outcome_files import OutcomeColumns, read_outcomes
from pipelines.outcomes.outcome_parts import OutcomeParts
from pipelines.outcomes.periods import Periods, hour_name, hour_number

_SCRATCH = ".joining"


@dataclass(frozen=True)
class JoinSource:
    """The inputs of a join.

    Attributes:
        log: The log.
        layout: The columns of rows.
        columns: The columns of outcomes.
        files: The files of outcomes, by name.
        periods: The window.
        features: Folder of the fitted transforms.
        grouped: Whether consecutive rows with the same context are one request.
    """

    log: CallLog
    layout: Layout
    columns: OutcomeColumns
    files: Mapping[str, Path]
    periods: Periods
    features: Path
    grouped: bool

    @property
    def is_by_request(self) -> bool:
        """Whether an outcome names its request, so that no later one may take it."""
        return self.layout.request in self.columns.keys.names


@dataclass
class Joined:
    """What a join has done.

    Attributes:
        manifest: The manifest after it.
        written: Names of the hours that were written now.
        waiting: Names of the hours whose window is open.
        kept: Names of the hours that would change, but whose log is deleted.
    """

    manifest: Manifest
    written: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def remarks(self) -> Iterator[str]:
        """Sentences on calls and outcomes that no written row has."""
        hours = [self.manifest.hours[name] for name in self.written]
        reasons: Counter[str] = Counter()
        for hour in hours:
            reasons.update(hour["left_out"])
        for reason, calls in reasons.most_common():
            yield f"{calls:,} calls do not fit the schema of the run: {reason}."
        repeated = sum(hour["repeated"] for hour in hours)
        if repeated:
            yield f"{repeated:,} calls repeat a request that the same version had answered."
        outcomes = sum(hour["outcomes"] for hour in hours)
        unmatched = self.manifest.unmatched(self.written)
        if unmatched:
            rates = [h["sampling_rate"] for h in hours if h["sampling_rate"] is not None]
            yield (
                f"{unmatched:,} of {outcomes:,} outcomes belong to no logged request of the window "
                f"before them; the log has {min(rates, default=1.0):.4g} of the requests."
            )
        if self.kept:
            yield (
                f"{len(self.kept)} hours have new calls or outcomes and stay as they are, as files "
                f"that they were made from are gone: {', '.join(self.kept[:3])}"
                f"{', ...' if len(self.kept) > 3 else ''}."
            )


def join(
    source: JoinSource,
    target: Path,
    settings: Mapping[str, Any],
    engine: Engine,
    advance: Callable[[int], None],
) -> Joined:
    """Writes the hours that are complete and that are new or have changed.

    Args:
        source: The inputs.
        target: The folder of rows.
        settings: What all rows of the folder have in common.
        engine: Makes the hours.
        advance: Shows the rows done.

    Raises:
        PipelineError: The log or the outcomes cannot be read, or the folder has rows of other
            settings.
    """
    with locked(target), _scratch(target / _SCRATCH) as scratch:
        manifest = Manifest.read(target) or Manifest(target / MANIFEST, dict(settings))
        manifest.check_settings(settings)
        parts = OutcomeParts(scratch, source.periods)
        manifest.log = source.log.index(manifest.log, source.periods)
        manifest.outcomes, unread = _indexed(source, manifest.outcomes, parts)
        joined = Joined(manifest)
        inputs = dict(_due(source, joined))
        _add_older(source, manifest.outcomes, parts, unread, list(inputs))
        maker = HourMaker(
            target,
            source.log,
            source.layout,
            parts,
            tuple(source.columns.keys.names),
            source.features,
            source.grouped,
        )
        tasks = [_task(hour, manifest.log, source.periods) for hour in inputs]
        with closing(engine.map_ordered(maker.opened, tasks)) as results:
            for task, result in zip(tasks, results, strict=True):
                name = hour_name(task.hour)
                manifest.hours[name] = {**result, "inputs": inputs[task.hour]}
                manifest.save()
                joined.written.append(name)
                advance(result["rows"])
        manifest.save()
    return joined


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A new folder of temporary files; that of a killed join is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _indexed(source: JoinSource, known: Index, parts: OutcomeParts) -> tuple[Index, set[str]]:
    """The index of the outcomes, and the files of it that have not changed.

    The others are read, and their outcomes are added to the parts.
    """
    index: Index = {}
    unread = set()
    for name, path in source.files.items():
        status = path.stat()
        stamp = f"{status.st_size} {status.st_mtime_ns}"
        if name in known and known[name].stamp == stamp:
            index[name] = known[name]
            unread.add(name)
        else:
            index[name] = parts.add(read_outcomes(path, source.columns), stamp)
    return index, unread


def _due(source: JoinSource, joined: Joined) -> Iterator[tuple[int, dict[str, Any]]]:
    """The hours to write, and the contents of the files that each is made from."""
    periods, manifest = source.periods, joined.manifest
    indexes = {"log": manifest.log, "outcomes": manifest.outcomes}
    parts_of = {
        kind: {p for of in index.values() for p in of.parts} for kind, index in indexes.items()
    }
    newest = max(set().union(*parts_of.values()), default=0)
    logged = {periods.hour_of(part) for part in parts_of["log"]}
    for hour in sorted(logged | set(map(hour_number, manifest.hours))):
        name = hour_name(hour)
        if newest < periods.after(hour).stop:
            joined.waiting.append(name)
            continue
        here, after = periods.of_hour(hour), periods.after(hour)
        of_log = [*periods.before(hour), *here, *([] if source.is_by_request else after)]
        inputs = {
            "log": contents(manifest.log, of_log),
            "outcomes": contents(manifest.outcomes, [*here, *after]),
        }
        if name not in manifest.hours:
            yield hour, inputs
            continue
        earlier = manifest.hours[name]["inputs"]
        if any(inputs[kind].items() - earlier[kind].items() for kind in inputs):
            is_whole = all(earlier[kind].keys() <= index.keys() for kind, index in indexes.items())
            if is_whole:
                yield hour, inputs
            else:
                joined.kept.append(name)


def _add_older(
    source: JoinSource, index: Index, parts: OutcomeParts, unread: set[str], hours: list[int]
) -> None:
    """Adds the outcomes of files that have not changed, of the parts that the hours need."""
    periods = source.periods
    needed = {part for hour in hours for part in (*periods.of_hour(hour), *periods.after(hour))}
    for name in sorted(unread):
        here = needed & index[name].parts.keys()
        if here:
            parts.add(read_outcomes(source.files[name], source.columns), "", here)


def _task(hour: int, log: Index, periods: Periods) -> HourTask:
    end = periods.of_hour(hour).stop
    near_end = [*range(end - len(periods.after(hour)), end), *periods.after(hour)]
    files = contents(log, [*periods.before(hour), *periods.of_hour(hour)])
    return HourTask(hour, tuple(sorted(files)), tuple(sorted(contents(log, near_end))))
