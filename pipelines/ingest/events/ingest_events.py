"""The step `ingest` of a sequence model: reads event logs and writes sequences by split."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.ingest.events.buckets import Buckets
from pipelines.ingest.events.event_log import EventLog
from pipelines.ingest.events.event_options import COUNT, EventOptions
from pipelines.ingest.events.writing import ItemCounts, Written, write_sequences
from pipelines.ingest.source import SPLITS
from pipelines.ingest.split_options import cuts
from serving.state.columns.times import shown_time

ITEM_COUNTS = "item_counts.parquet"  # how often each item occurs in the train rows


def ingest_events(options: EventOptions, out: Path, progress: Progress) -> dict[str, Any]:
    """Reads events and writes a row per user and split, with lists in the order of time.

    Events of one time keep the order of the files. A row of train ends before the targets of
    validation and test; a row of valid or test ends with its target. The rows have the columns
    `user` and `item`, `age` (whole seconds from each event to the row's last), `session` (numbers
    from 0 for each user) and `columns`, and are in the order of a hash of the user. The memory
    follows the number of items, not of events.

    Args:
        options: The `[data]` table.
        out: Folder that receives `train`, `valid`, `test` and `item_counts.parquet`.
        progress: Shows the events done.

    Returns:
        For the manifest: `rows` by split, `columns` with their types; `events`, `users` and
        `items` that are kept; the `times` of the first and last event; and `left_out`, what is
        not kept, by reason.

    Raises:
        PipelineError: A file, a column or a time is invalid, or a split has no rows.
    """
    log = EventLog(options)
    seen = _count(log, options, progress.start("counting items", None))
    times = [shown_time(time, log.time_type) for time in seen.times]
    ends = (shown_time(time // log.second, pa.timestamp("s")) for time in seen.times)
    progress.finish(f"times: {' to '.join(map(str, ends))} UTC")
    counts = seen.items.table()
    is_rare = pc.less(counts[COUNT], options.min_item_events)
    rare = counts.filter(is_rare)
    frequent = counts[options.item].filter(pc.invert(is_rare)) if rare.num_rows else None
    events_of_rare = pc.sum(rare[COUNT], min_count=0).as_py()
    events = seen.events - events_of_rare
    bounds = None
    if options.split.by == "time":
        split, time = options.split, options.time
        bounds = cuts(split.valid_from, split.test_from, time, log.time_type, log.where)
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".buckets-", dir=out) as folder,
        Buckets(Path(folder), events) as buckets,
    ):
        _divide(log, options, frequent, buckets, progress.start("dividing by user", seen.events))
        advance = progress.start("writing sequences", events)
        written = write_sequences(buckets, out, options, log.second, bounds, advance)
    left_out = {
        "events_without_user_or_item": seen.missing,
        "rare_items": rare.num_rows,
        "events_of_rare_items": events_of_rare,
        **written.left_out,
    }
    _check_rows(written, options, log.where, times, left_out)
    pq.write_table(written.items.sorted(), out / ITEM_COUNTS)
    return {
        "rows": written.rows,
        "columns": written.columns,
        "events": written.events,
        "users": written.users,
        "items": written.items.table().num_rows,
        "times": times,
        "left_out": left_out,
    }


@dataclass
class _Seen:
    """The counts of a first pass over all events."""

    items: ItemCounts
    events: int = 0
    missing: int = 0
    times: tuple[Any, Any] = (np.inf, -np.inf)


def _count(log: EventLog, options: EventOptions, advance: Callable[[int], None]) -> _Seen:
    seen = _Seen(ItemCounts(options.item))
    for events, missing in log.blocks():
        seen.missing += missing
        seen.events += events.num_rows
        advance(events.num_rows)
        if events.num_rows:
            seen.items.add(events[options.item], np.ones(events.num_rows, np.int64))
            ends = pc.min_max(events[options.time]).as_py()
            seen.times = min(seen.times[0], ends["min"]), max(seen.times[1], ends["max"])
    if not seen.events:
        received = f"{seen.missing} without, and no others" if seen.missing else "no rows"
        raise PipelineError(
            f"{log.where}: expected events with a user and an item. Received: {received}."
        )
    return seen


def _divide(
    log: EventLog,
    options: EventOptions,
    frequent_items: pa.ChunkedArray | None,
    buckets: Buckets,
    advance: Callable[[int], None],
) -> None:
    """Puts the events into buckets: all, or those of the kept items."""
    for events, _ in log.blocks():
        frequent = events
        if frequent_items is not None:
            frequent = events.filter(pc.is_in(events[options.item], value_set=frequent_items))
        buckets.add(frequent, options.user)
        advance(events.num_rows)


def _check_rows(
    written: Written,
    options: EventOptions,
    where: str,
    times: Sequence[Any],
    left_out: Mapping[str, int],
) -> None:
    """Raises an error if a split has no rows."""
    empty = next((split for split in SPLITS if not written.rows[split]), None)
    if empty is None:
        return
    reasons = ", ".join(f"{name} {count}" for name, count in left_out.items() if count)
    split = options.split
    if split.by == "time":
        advice = (
            f"the times of {options.time!r} go from {times[0]} to {times[1]}, and data.split has "
            f"valid_from = {split.valid_from} and test_from = {split.test_from}: move the cuts"
        )
    else:
        advice = "valid and test need users with 3 events: check data.user, or give more events"
    raise PipelineError(
        f"{where}: the split {empty!r} has no rows, of {written.events} events of {written.users} "
        f"users. Left out: {reasons or 'nothing'}. Lower data.min_item_events or "
        f"data.min_user_events if they leave out too much; {advice}."
    )
