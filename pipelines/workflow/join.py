"""`recsys-attn join`: served requests and their outcomes as rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import Engine
from pipelines.experiment.config import Experiment
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import own_request
from pipelines.ingest import log_state
from pipelines.outcomes.call_log import CallLog
from pipelines.outcomes.join import Joined, JoinSource, join
from pipelines.outcomes.layout import REQUEST, Layout
from pipelines.outcomes.manifest import Manifest
from pipelines.outcomes.outcome_files import OutcomeColumns, column_names, files_of
from pipelines.outcomes.periods import Periods
from pipelines.outcomes.row_keys import choose_keys
from pipelines.outcomes.row_times import SERVED_AT, RowTimes
from pipelines.prediction_log.log_folder import LogFolder
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Where
from pipelines.storage.raw_columns import raw_columns
from pipelines.workflow.steps import Steps
from serving.state.columns.times import ticks_per_second
from serving.state.definitions.definition import TICKS, StateDefinition
from serving.state.definitions.durations import SECONDS
from serving.state.saved import SavedState

_TIME = "time"  # of an outcome, where rows have no time but that of the answer


@dataclass(frozen=True)
class JoinOptions:
    """The options of `recsys-attn join`.

    Attributes:
        log: Folder of the prediction log.
        outcomes: Folder of the events.
        window: Time after a request in which an outcome belongs to it, such as `"30m"`.
        target: The folder of rows.
        by: Columns that name the row of an outcome. Empty: those of the run.
        model: Model name in the log. None: the only one, or the export's.
    """

    log: Where
    outcomes: Path
    window: str
    target: Path
    by: tuple[str, ...] = ()
    model: str | None = None


def join_log(steps: Steps, options: JoinOptions, engine: Engine) -> Joined:
    """Joins a log with outcomes by the schema of a run.

    Raises:
        PipelineError: The log or the outcomes cannot be read, or do not fit the run.
    """
    window = _seconds(options.window)
    _check_apart(options)
    steps.run.manifest("fit")
    folder = steps.run.path("fit")
    fitted, definition = FittedFeatures.load(folder), _definition(steps)
    layout = layout_of(steps, fitted, definition)
    log = LogFolder.open(options.log)
    model = log.choose_model(options.model, steps.export_folder.name)
    files = files_of(options.outcomes)
    by = _by(
        steps.experiment, options, column_names(next(iter(files.values()))), layout, definition
    )
    keys = pa.schema([layout.key_schema.field(name) for name in by])
    time = _TIME if layout.times.name == SERVED_AT else layout.times.name
    source = JoinSource(
        CallLog(log, model, layout.times),
        layout,
        OutcomeColumns(keys, layout.times, time, layout.labels),
        files,
        Periods(window, layout.times.per_second),
        folder,
        own_request(fitted.schema, steps.request) is not None,
    )
    progress = Progress(steps.console)
    try:
        advance = progress.start("joining", None)
        return join(source, options.target, _settings(source, model, by), engine, advance)
    finally:
        progress.stop()


def _check_apart(options: JoinOptions) -> None:
    """Checks that no later join reads the rows as outcomes."""
    if options.target.resolve().is_relative_to(options.outcomes.resolve()):
        raise PipelineError(
            f"--output: expected a folder outside of --outcomes, {options.outcomes}: the next join "
            f"would read the rows as outcomes. Received: {options.target}."
        )


def _definition(steps: Steps) -> StateDefinition | None:
    if not steps.experiment.data.has_state:
        return None
    return SavedState.open(steps.run.path("ingest") / log_state.FOLDER).definition


def _by(
    experiment: Experiment,
    options: JoinOptions,
    columns: list[str],
    layout: Layout,
    definition: StateDefinition | None,
) -> tuple[str, ...]:
    """The columns that name the row of an outcome: those of earlier hours, if there are some."""
    earlier = Manifest.read(options.target)
    by = options.by or (() if earlier is None else tuple(earlier.settings["key"]))
    items = experiment.data.items
    return choose_keys(by, columns, layout, items.key if items else None, definition)


def _settings(source: JoinSource, model: str, by: tuple[str, ...]) -> dict[str, Any]:
    columns = {f"type of {field.name!r}": str(field.type) for field in source.layout.schema}
    return {"model": model, "window": source.periods.window, "key": list(by), **columns}


def layout_of(steps: Steps, fitted: FittedFeatures, definition: StateDefinition | None) -> Layout:
    """The columns of rows: those that `ingest` reads, and what is known of the answer."""
    schema = raw_columns(steps.experiment.schema_)
    names = {feature.name for feature in schema.features}
    ids = [feature for feature in fitted.raw_schema.features if feature.name not in names]
    names |= {feature.name for feature in ids}
    keys: list[pa.Field] = []
    if definition is not None:
        of_static = [field for static in definition.static for field in static.columns]
        kinds = {field.name: field for field in (*of_static, *definition.columns)}
        request, event_id = steps.request or REQUEST, definition.event_id
        ids_of_events = set() if event_id in (None, request) else {event_id}  # unknown: null
        keys = [kinds[name] for name in sorted((definition.keys | ids_of_events) - names)]
    labels = [name for task in schema.tasks for name in (task.label_column, task.mask) if name]
    return Layout(
        steps.request or REQUEST,
        _times(steps, definition),
        pa.schema(keys),
        (*schema.features, *ids),
        tuple(dict.fromkeys(name for name in labels if name not in names)),
        tuple(task.name for task in schema.tasks),
    )


def _times(steps: Steps, definition: StateDefinition | None) -> RowTimes:
    """The times of rows: those of the state, or those that split the training data."""
    data = steps.experiment.data
    if definition is not None and definition.features:
        name, kind, unit = definition.time, definition.time_type, definition.time_unit
    elif data.split.by == "time" and data.split.column is not None:
        name = data.split.column
        kind = DataSplit(steps.run.path("ingest") / "train").schema.field(name).type
        unit = data.time_unit
    else:
        return RowTimes()
    per_second = ticks_per_second(kind) or (TICKS[unit] if unit else None)
    if per_second is None:
        raise PipelineError(
            f"The times {name!r} are numbers of an unknown unit ({kind}), so no time of a request "
            'can be compared with them. Set `data.time_unit`, such as time_unit = "s", and run '
            "`recsys-attn ingest` again."
        )
    return RowTimes(name, kind, per_second)


def _seconds(window: str) -> int:
    if re.fullmatch(r"[1-9][0-9]*[smhdw]", window) is None:
        raise PipelineError(
            "--window: expected a whole number with its unit (s, m, h, d or w), such as 30m. "
            f"Received: {window!r}."
        )
    return int(window[:-1]) * SECONDS[window[-1]]
