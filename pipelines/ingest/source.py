"""The result of a reader: files of rows, by split if the provider names splits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from recsys_attn.named_parts import NamedParts
from recsys_attn.schema import Schema

SPLITS = ("train", "valid", "test")
ALL = "all"  # the only part of a source without splits
CHUNK_ROWS = 65_536

Columns = frozenset[str] | None
Read = Callable[[Columns], Iterator[pa.Table]]
Own = TypeVar("Own", bound=Callable[..., Iterable[pa.Table]])


@dataclass(frozen=True)
class SourceFile:
    """One file's rows, in tables of bounded size; can be read repeatedly.

    `read(columns)` may leave out other columns; None reads all.

    Attributes:
        where: Its name for messages.
        read: Reads its rows.
        header: Reads the names and types of its columns without rows, None for a file without
            rows. None: they are those of the first rows.
    """

    where: str
    read: Read
    header: Callable[[], pa.Schema | None] | None = None

    @cached_property
    def schema(self) -> pa.Schema | None:
        """Names and types of the columns; None if the file has no rows."""
        if self.header is not None:
            return self.header()
        return next((table.schema for table in self.read(None) if table.num_rows), None)

    def without(self, names: Collection[str]) -> SourceFile:
        """The file without some columns."""

        def dropped(table: pa.Table) -> pa.Table:
            return table.select([name for name in table.column_names if name not in names])

        def read(columns: Columns) -> Iterator[pa.Table]:
            return map(dropped, self.read(columns))

        def header() -> pa.Schema | None:
            return None if self.schema is None else dropped(self.schema.empty_table()).schema

        return SourceFile(self.where, read, header)

    @classmethod
    def of_table(cls, where: str, table: pa.Table) -> SourceFile:
        """A table in memory as a file."""

        def read(columns: Columns) -> Iterator[pa.Table]:
            for start in range(0, table.num_rows, CHUNK_ROWS):
                yield table.slice(start, CHUNK_ROWS)

        return cls(where, read)


@dataclass(frozen=True)
class Source:
    """The rows of a data set, and the columns that splitting needs.

    Attributes:
        parts: Files by the provider's split, or under `ALL`.
        request, user, time: The source's own columns, if it has them.
        time_quantile: Time at a share of the rows, if it is known without reading.
        checks_requests: Whether to check that rows of a request are consecutive.
        users, items: The source's own tables of features by id, if it has them.
    """

    parts: Mapping[str, Sequence[SourceFile]] = field(default_factory=dict)
    request: str | None = None
    user: str | None = None
    time: str | None = None
    time_quantile: Callable[[float], int] | None = None
    checks_requests: bool = False
    users: pa.Table | None = None
    items: pa.Table | None = None

    def without(self, names: Collection[str]) -> Source:
        """The source without some columns."""
        if not names:
            return self
        parts = {part: [file.without(names) for file in of] for part, of in self.parts.items()}
        return replace(self, parts=parts)

    def of_parts(self, names: Collection[str]) -> Source:
        """The source with those of some names of its parts."""
        return replace(self, parts={name: of for name, of in self.parts.items() if name in names})


class SourceContext(NamedTuple):
    """The parts of an experiment that a source may need besides its options.

    Args:
        schema: The features and tasks; None: all columns.
        seed: Seed of a simulation.
        named: Further columns that the experiment names.
    """

    schema: Schema | None
    seed: int
    named: Collection[str]


@dataclass(frozen=True)
class SourceKind:
    """A value of `data.source`.

    Args:
        read: Reads the source from the `[data]` table.
        file_suffixes: Ends of the names of a user's own files, which `data.path` must name. None:
            it reads other files.
        has_requests: Whether its rows have requests of their own.
        func: A user's function from one path of `data.path` (None if it is left out), and the
            options in `data.options` by name, to tables.
    """

    read: Callable[[Any, SourceContext], Source]
    file_suffixes: tuple[str, ...] | None = None
    has_requests: bool = False
    func: Callable[..., Iterable[pa.Table]] | None = None


class Sources(NamedParts[SourceKind]):
    """The sources by name."""

    def add(self, name: str, kind: SourceKind) -> None:
        """Enters a built-in source."""
        self.members[name] = kind

    def register(self, name: str) -> Callable[[Own], Own]:
        """Returns the decorator that enters a function from a path to tables.

        Raises:
            ValueError: Another source has this name.
        """
        enter = super().register(name)

        def entered(function: Own) -> Own:
            def read(options: Any, context: SourceContext) -> Source:
                from pipelines.ingest.sources import read_own  # which needs this module

                return read_own(function, options, context)

            enter(function)
            self.members[name] = SourceKind(read, func=function)
            return function

        return entered


SOURCES = Sources("source")
