"""What a reader gives: files of rows, in parts where the provider names the split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

SPLITS = ("train", "valid", "test")
ALL = "all"  # the name of the one part of a source that names no split
CHUNK_ROWS = 65_536

Columns = frozenset[str] | None
Read = Callable[[Columns], Iterator[pa.Table]]


@dataclass(frozen=True)
class File:
    """One file's rows, in tables of bounded size; reading may start again any time.

    `read(columns)` may leave out other columns where `columns` is not None.
    """

    where: str
    read: Read

    @classmethod
    def of_table(cls, where: str, table: pa.Table) -> File:
        """A table in memory as a file."""

        def read(columns: Columns) -> Iterator[pa.Table]:
            for start in range(0, table.num_rows, CHUNK_ROWS):
                yield table.slice(start, CHUNK_ROWS)

        return cls(where, read)


@dataclass(frozen=True)
class Source:
    """The rows of a data set and the names of the columns that splitting needs.

    Attributes:
        parts: Files by the split that the provider names, or under `ALL`.
        request, user, time: The source's own columns for them, where it has them.
        time_quantile: Time at a share of the rows, where that is known without reading.
        checks_requests: Whether rows of a request may lie apart, so that it must be checked.
    """

    parts: Mapping[str, Sequence[File]] = field(default_factory=dict)
    request: str | None = None
    user: str | None = None
    time: str | None = None
    time_quantile: Callable[[float], int] | None = None
    checks_requests: bool = False
