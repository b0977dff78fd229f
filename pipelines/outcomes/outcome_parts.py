"""Outcomes on disk, divided by time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.outcomes.manifest import FileIndex, Part
from pipelines.outcomes.outcome_files import TICK
from pipelines.outcomes.periods import Periods


@dataclass(frozen=True)
class OutcomeParts:
    """A folder with a file of outcomes for each part of an hour that has some.

    A file is a sequence of streams of Arrow, one for each table that was added: no file stays open,
    so that there may be any number of them.

    Args:
        folder: The folder.
        periods: The parts.
    """

    folder: Path
    periods: Periods

    def add(
        self, tables: Iterable[pa.Table], stamp: str, only: Collection[int] | None = None
    ) -> FileIndex:
        """Adds the outcomes of a file; returns what it has.

        Args:
            tables: The outcomes.
            stamp: The stamp of the file.
            only: The parts to add; None: all.
        """
        counts: dict[int, int] = defaultdict(int)
        digests: dict[int, hashlib.blake2b] = defaultdict(lambda: hashlib.blake2b(digest_size=8))
        for table in tables:
            of_row = self.periods.parts(table[TICK].to_numpy())
            for part in np.unique(of_row).tolist():
                if only is not None and part not in only:
                    continue
                rows = table.filter(pa.array(of_row == part))
                content = _stream(rows)
                with self._path(part).open("ab") as file:
                    file.write(content)
                counts[part] += rows.num_rows
                digests[part].update(content)
        parts = {part: Part(counts[part], digest.hexdigest()) for part, digest in digests.items()}
        return FileIndex(stamp, parts)

    def read(self, parts: Iterable[int]) -> pa.Table | None:
        """The outcomes of some parts; None: there are none."""
        tables: list[pa.Table] = []
        for part in parts:
            path = self._path(part)
            if path.exists():
                with pa.memory_map(str(path)) as file:
                    size = file.size()
                    while file.tell() < size:
                        with pa.ipc.open_stream(file) as stream:
                            tables.append(stream.read_all())
        return pa.concat_tables(tables) if tables else None

    def _path(self, part: int) -> Path:
        return self.folder / f"{part}.arrows"


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
