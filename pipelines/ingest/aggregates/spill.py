"""Rows on disk, divided by time: the order of the source does not matter, nor its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa


class Spill:
    """Writes columns of numbers into one file for each range of times; a context manager.

    Args:
        folder: Where the files are written.
        bounds: The first time of each range but the first, ascending.
    """

    def __init__(self, folder: Path, bounds: np.ndarray) -> None:
        self._folder = folder
        self._bounds = bounds
        self._files: dict[Path, pa.ipc.RecordBatchStreamWriter] = {}
        self._open = ExitStack()

    def add(self, name: str, time: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Adds rows; those of one range keep their order."""
        ranges = np.searchsorted(self._bounds, time, side="right")
        order = np.argsort(ranges, kind="stable")
        table = pa.table({key: values[order] for key, values in columns.items()})
        numbers, first = np.unique(ranges[order], return_index=True)
        ends = np.append(first, len(order))[1:]
        for number, start, end in zip(numbers, first, ends, strict=True):
            path = _path(self._folder, name, number)
            if path not in self._files:
                file = self._open.enter_context(pa.OSFile(str(path), "wb"))
                writer = pa.ipc.new_stream(file, table.schema)
                self._files[path] = self._open.enter_context(writer)
            self._files[path].write_table(table.slice(start, end - start))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()


def read_range(folder: Path, name: str, number: int, columns: Sequence[str]) -> list[np.ndarray]:
    """Some columns of the rows of one range; empty if it has none."""
    path = _path(folder, name, number)
    if not path.exists():
        return [np.zeros(0, np.int64) for _ in columns]
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        table = stream.read_all().select(columns)
        return [table[column].to_numpy() for column in columns]


def _path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number}.arrow"
