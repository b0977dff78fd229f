"""Proposes an experiment file for a log."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.common.errors import PipelineError
from pipelines.common.toml_text import toml_text
from pipelines.experiment.file import read_toml, validated
from pipelines.experiment.names import check_feature_names
from pipelines.experiment.own_options import import_parts
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import ALL, SourceContext
from pipelines.ingest.sources import SOURCES
from pipelines.proposal.features import Proposed, propose_features
from pipelines.proposal.looked_at import Column, read_columns
from pipelines.proposal.over_time import OverTime, propose_over_time
from pipelines.proposal.roles import UNITS, NamedRoles, Roles, guess_roles, time_unit
from pipelines.storage.filesystem import CSV

_MADE = ("aggregates", "histories", "features_over_time")
_OF_MADE = ("time_unit", "event_id", "late", "state_of")  # keys that need made columns
_WIDTH = 100
_MOMENTS = 20  # different times that can divide rows


class Log(NamedTuple):
    """The rows that a proposal is for.

    Attributes:
        head: Keys of the experiment beside `data`, such as its name.
        data: The table `data` without made columns.
        columns: The columns of the first rows.
        roles: Their roles.
        has_splits: Whether the files name the splits.
    """

    head: Mapping[str, Any]
    data: Mapping[str, Any]
    columns: Sequence[Column]
    roles: Roles
    has_splits: bool


def propose(files: Sequence[str], named: NamedRoles, command: str) -> str:
    """The text of an experiment file.

    Args:
        files: Parquet or CSV files or folders, or one experiment file with a table `data`.
        named: The columns that the user names.
        command: The command, for the first comment.

    Raises:
        PipelineError: There are no rows or no labels, or a column is missing.
    """
    log = _read(files, named)
    proposed = propose_features(log.columns, log.roles)
    if not any(p.feature is not None for p in proposed):
        raise PipelineError(f"{', '.join(files)}: no column can be a feature.")
    over_time = propose_over_time(proposed, log.roles)
    return "\n".join([*_head(log, command), *_features(proposed), *_data(log, over_time), ""])


def _read(files: Sequence[str], named: NamedRoles) -> Log:
    head, data = _tables(files)
    where = ", ".join(files)
    alone = {key: value for key, value in data.items() if key not in _OF_MADE}
    options = validated(DataOptions, alone, where, within="data.")
    source = SOURCES[options.source].read(options, SourceContext(None, 0, ()))
    columns = read_columns(source)
    if not columns or not len(columns[0].values):
        raise PipelineError(f"{where}: holds no rows; expected a file with rows.")
    names = [column.name for column in columns]
    of_split = options.split.column if options.split.by == "time" else None
    known: dict[str, Any] = {
        "user": named.user or source.user,
        "time": named.time or of_split or source.time,
        "request": named.request or options.request or source.request,
    }
    known = {role: name for role, name in known.items() if name in names or getattr(named, role)}
    roles = guess_roles(columns, named._replace(**known), where)
    for column in (roles.user, roles.item, *roles.labels):
        if column is not None:
            _check_name(column.name, where)
    return Log(head, data, columns, roles, set(source.parts) != {ALL})


def _tables(files: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys beside `data` and the table `data`, of an experiment file or for other files."""
    if len(files) == 1 and files[0].endswith(".toml"):
        path = Path(files[0])
        values = read_toml(path, "experiment")
        head = {key: value for key, value in values.items() if key in ("name", "seed", "imports")}
        import_parts(values, path)
        data = values.get("data")
        if not isinstance(data, dict):
            raise PipelineError(f"{path}: expected a table `data`. Add it, or name Parquet files.")
        return head, {key: value for key, value in data.items() if key not in _MADE}
    source = "csv" if files[0].endswith(CSV) else "parquet"
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(files[0]).resolve().stem).strip("-_.") or "log"
    return {"name": name}, {"source": source, "path": files[0] if len(files) == 1 else [*files]}


def _check_name(name: str, where: str) -> None:
    try:
        check_feature_names([name])
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


def _head(log: Log, command: str) -> Iterator[str]:
    rows = len(log.columns[0].values)
    yield from _comment(
        f"Proposed by `{command}` from {rows:,} rows. Read it, change it, and give it to "
        "`recsys-attn run`. The model is the default one; its table is `[model]`."
    )
    yield from (f"{key} = {toml_text(value)}" for key, value in log.head.items())
    tasks = (
        ({"name": label.name}, f"{label.numbers.mean():.2%} of the known ones are 1")
        for label in log.roles.labels
    )
    yield from _list("tasks", tasks)


def _features(proposed: Sequence[Proposed]) -> Iterator[str]:
    left_out = [p for p in proposed if p.feature is None]
    if left_out:
        yield "# Columns that are no features:"
        for p in left_out:
            yield from _comment(f"{p.column.name}: {p.reason}.", "#   ")
    yield from _list("features", ((p.feature, p.reason) for p in proposed if p.feature is not None))


def _data(log: Log, over_time: OverTime) -> Iterator[str]:
    roles, made = log.roles, over_time.aggregates or over_time.histories
    data = {key: log.data[key] for key in log.data if made or key not in _OF_MADE}
    yield "\n[data]"
    yield from (f"{key} = {toml_text(value)}" for key, value in data.items())
    if roles.request is not None and "request" not in data:
        text = f"request = {toml_text(roles.request.name)}"
        yield f"{text}  # rows of equal values were shown together"
    if "split" not in data:
        yield from _split(log)
    unit = None if roles.time is None else time_unit(roles.time)
    if made and unit is not None and "time_unit" not in data:
        yield f"time_unit = {toml_text(unit)}  # since 1970, by the size of the times"
    for remark in over_time.remarks:
        yield from _comment(remark)
    if made:
        yield "features_over_time = true  # the columns below are features too"
        day = '"1d"' if unit is None else f"{int(86_400 * UNITS[unit]):_}"
        yield from _comment(
            "Each row sees strictly earlier ones. A label that is known late, such as a purchase a "
            f"day after its click, needs a `delay` = {day} in its entries."
        )
    for name in ("aggregates", "histories"):
        entries = getattr(over_time, name)
        if entries:
            yield f"{name} = ["
            for comment, entry in entries:
                yield from (f"  # {comment}", f"  {toml_text(entry)},")
            yield "]"
    if roles.user is not None:
        yield f"\n[evaluation]\ngroup = {toml_text(roles.user.name)}  # GAUC by user"


def _split(log: Log) -> Iterator[str]:
    """The split: that of the files, or by time; without both by a hash."""
    time, others = log.roles.time, log.roles.other_times
    if log.has_splits:
        yield 'split = { by = "provided" }'
    elif time is None:
        yield from _comment("No column tells when a row was, so rows are divided by a hash.")
    elif time.distinct < _MOMENTS:
        yield from _comment(
            f"{time.name} has too few values ({time.distinct}), so a hash divides the rows."
        )
    else:
        also = f"; also times: {', '.join(others)}" if others else ""
        split = {"by": "time", "column": time.name}
        yield f"split = {toml_text(split)}  # the latest 10 % test{also}"


def _list(key: str, entries: Iterable[tuple[Any, str]]) -> Iterator[str]:
    yield f"{key} = ["
    yield from (f"  {toml_text(entry)},  # {comment}" for entry, comment in entries)
    yield "]"


def _comment(text: str, start: str = "# ") -> list[str]:
    indent = "#".ljust(len(start))
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )
