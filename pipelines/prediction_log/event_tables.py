"""The events that a store has got after `ingest`, from the files that `state follow` reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from pipelines.common.errors import PipelineError
from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.following.files import event_files, is_among, read_from, readable_end
from serving.state.following.log import Events
from serving.state.keyed.group_rows import GroupRows
from serving.state.online.static_columns import Read, with_static_columns
from serving.state.saved import SavedState
from serving.state.stores.store import Cell


def event_tables(folder: Path, saved: SavedState, read: Read) -> Iterator[pa.Table]:
    """The valid events of a folder as rows of a state, but for files that the state has.

    Args:
        folder: Parquet and JSON-lines files, which are read in the order of their names.
        saved: The state.
        read: Reads the static features that events lack.

    Raises:
        PipelineError: There is no such folder, or a file cannot be read.
    """
    if not folder.is_dir():
        raise PipelineError(
            f"--state: expected the folder of events that `recsys-attn state follow` reads. "
            f"Received: {folder}, which is no folder."
        )
    definition = saved.definition
    for name, path in event_files(folder):
        if is_among(saved.files, name, path.stat().st_size):
            continue
        try:
            parts = read_from(path, definition.event_columns.names, 0, readable_end(path, 0))
            for _, events in parts:
                if events.fault(definition) is None:
                    yield from _valid(events, range(len(events)), definition, read)
        except DataError as error:
            raise PipelineError(f"{path}: {error}") from None


def saved_profiles(saved: SavedState) -> Read:
    """Reads the static features that features over time read from a saved state, not a store."""
    definition = saved.definition
    is_read = definition.event_columns.names != definition.columns.names
    blobs = {
        Cell(static.fingerprint, key): blob
        for static in (definition.static if is_read else ())
        for part in saved.blobs(static)
        for key, blob in zip(*part, strict=True)
    }
    return lambda cells: [blobs.get(cell) for cell in cells]


def _valid(
    events: Events, rows: Sequence[int], definition: StateDefinition, read: Read
) -> Iterator[pa.Table]:
    """Tables of the valid ones of some events: halves of which one is invalid are halved."""
    try:
        table = with_static_columns(definition, events.table(rows, definition), read)
        for group in definition.groups:
            GroupRows.of(group, table, "events")
    except DataError:
        half = len(rows) // 2
        if half:
            yield from _valid(events, rows[:half], definition, read)
            yield from _valid(events, rows[half:], definition, read)
        return
    yield table
