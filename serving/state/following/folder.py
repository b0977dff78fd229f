"""A folder of Parquet or JSON-lines files as a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from serving.state.errors import DataError
from serving.state.following.files import (
    ROW_BITS,
    event_files,
    is_among,
    read_from,
    readable_end,
)
from serving.state.following.log import Events, LogRows, log_id
from serving.state.following.stretches import Stretch, Stretches
from serving.state.online.group_batch import Places
from serving.state.stores.store import Store


class FolderLog:
    """The files of a folder, in the order of their names as they appear.

    A Parquet file must be complete when it appears: write it under a name that begins with `.`, and
    rename it. A file of JSON lines may grow.

    Args:
        folder: The folder. Its path names the log: a folder that has moved is another log.
        columns: Names of the columns of the state.
        store: The store, which keeps the order in which files were taken.
        reached: Gives the last place that the state has of a log; -1 if none.
        known: Names and sizes of files that each group of the state has from `ingest`, by
            fingerprint.
        report: Prints a sentence about a file that is left out.

    Raises:
        DataError: There is no such folder.
    """

    def __init__(
        self,
        folder: Path,
        columns: Iterable[str],
        store: Store,
        reached: Callable[[int], int],
        known: Mapping[bytes, Mapping[str, int]],
        report: Callable[[str], object],
    ) -> None:
        if not folder.is_dir():
            raise DataError(
                f"--from: expected a folder, or kafka://BROKER:PORT/TOPIC. Received: {folder}, "
                "which is no folder."
            )
        self._folder, self._columns = folder, list(columns)
        self._known, self._report = known, report
        self._log = log_id(f"folder:{folder.resolve()}")
        self._stretches = Stretches(store, self._log)
        # The stretch and the row from which the next call reads.
        self._number, self._row = divmod(reached(self._log) + 1, 1 << ROW_BITS)
        self._reported: set[str] = set()

    def unread(self) -> Iterator[LogRows]:
        """As `Log`."""
        while True:
            yield from self._of_stretches()
            new = next(self._new(), None)
            if new is None:
                return
            self._stretches.take(*new)

    def close(self) -> None:
        """As `Log`."""

    def _of_stretches(self) -> Iterator[LogRows]:
        """The unread rows of the files that were taken."""
        while (stretch := self._stretches[self._number]) is not None:
            for rows, events in self._read(stretch):
                yield self._placed(stretch, rows, events)
                self._row = int(rows[-1]) + 1
            if stretch == self._stretches.head:
                return  # it may grow
            if stretch == self._stretches[self._number]:
                self._number, self._row = self._number + 1, 0

    def _read(self, stretch: Stretch) -> Iterator[tuple[np.ndarray, Events]]:
        path = self._folder / stretch.name
        first = max(self._row, stretch.start)
        try:
            yield from read_from(path, self._columns, first, stretch.stop)
        except FileNotFoundError:
            self._once(stretch.name, "is gone; rows of it that were not read are not counted")
        except DataError as error:
            self._once(stretch.name, str(error))

    def _placed(self, stretch: Stretch, rows: np.ndarray, events: Events) -> LogRows:
        places = (stretch.number << ROW_BITS) + rows
        known_by = frozenset(
            group
            for group, files in self._known.items()
            if is_among(files, stretch.name, stretch.stop)
        )
        of = Places(self._log, places, int(places[-1]), known_by)
        return LogRows(stretch.name, rows, of, events)

    def _new(self) -> Iterator[tuple[str, int]]:
        """Files with unread bytes, in the order of their names, and where these end."""
        for name, path in event_files(self._folder):
            try:
                size = path.stat().st_size
                taken = self._stretches.ends.get(name, 0)
                if size < taken:
                    self._once(name, "is shorter than when it was read")
                elif size > taken and not all(
                    is_among(files, name, size) for files in self._known.values()
                ):
                    stop = readable_end(path, taken)
                    if stop > taken:
                        yield name, stop
            except DataError as error:
                self._once(name, str(error))
            except FileNotFoundError:
                continue

    def _once(self, name: str, what: str) -> None:
        sentence = f"{name} {what}."
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._report(sentence)
