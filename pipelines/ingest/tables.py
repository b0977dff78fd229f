"""Reads any CSV or Parquet files that follow a schema, or folders of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.ingest.checks import LABEL_ADVICE
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.delimited import delimited_file
from pipelines.ingest.source import ALL, CHUNK_ROWS, SPLITS, Columns, Source, SourceFile
from pipelines.storage.columns import describe_type
from pipelines.storage.filesystem import Storage, is_uri
from recsys_attn.schema import Schema

Location = TypeVar("Location", Path, Path | Storage)
LIST_SEPARATOR = "|"  # between the values of a list in a CSV cell


def read_parquet(options: DataOptions) -> Source:
    """Reads Parquet files on this machine or at URIs."""
    places = {
        part: [Storage.of(p) if is_uri(p) else Path(p) for p in given]
        for part, given in options.places_by_part().items()
    }
    return Source(_parts(places, parquet_files), checks_requests=True)


def read_csv(options: DataOptions, schema: Schema | None) -> Source:
    """Reads CSV files with a header; list values are separated by `|`."""

    def files(path: Path) -> list[SourceFile]:
        return [_csv_file(found, schema) for found in data_files(path, (".csv", ".csv.gz"))]

    return Source(_parts(options.paths_by_part(), files), checks_requests=True)


def parquet_file(path: Path) -> SourceFile:
    """One Parquet file, read as a stream."""
    return _stored_file(Storage.of(path), "")


def parquet_files(place: Path | Storage) -> list[SourceFile]:
    """The Parquet files of a file or folder, each read as a stream."""
    if isinstance(place, Path):
        return [parquet_file(path) for path in data_files(place, (".parquet",))]
    return [_stored_file(place, name) for name in place.files()]


def _stored_file(storage: Storage, name: str) -> SourceFile:
    where = storage.file_name(name)

    @contextlib.contextmanager
    def opened() -> Iterator[pq.ParquetFile]:
        try:
            with storage.open(name) as source, pq.ParquetFile(source) as file:
                _check_names(file.schema_arrow.names, where)
                yield file
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(
                f"{where}: is not a complete Parquet file ({error}); write or copy it again."
            ) from error

    def header() -> pa.Schema | None:
        with opened() as file:
            return (
                _decoded(file.schema_arrow.empty_table()).schema if file.metadata.num_rows else None
            )

    def read(columns: Columns) -> Iterator[pa.Table]:
        with opened() as file:
            names = file.schema_arrow.names
            if columns is not None and columns <= set(names):
                names = sorted(columns)  # else all: the error for a missing one lists them
            for batch in file.iter_batches(CHUNK_ROWS, columns=names):
                yield _decoded(pa.Table.from_batches([batch]))

    return SourceFile(where, read, header)


def data_files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """The file itself, or the folder's files with these suffixes, sorted by name."""
    if path.is_file():
        return [path]
    found = sorted(
        folder / name
        for folder, names in _folders(path)
        for name in names
        if name.endswith(tuple(suffixes)) and not name.startswith((".", "_"))
    )
    if not found:
        raise PipelineError(f"{path}: expected files *{' or *'.join(suffixes)}, found none.")
    return found


def _folders(path: Path) -> Iterator[tuple[Path, list[str]]]:
    """All folders below the path with their files; follows links, each folder once."""
    seen: set[str] = set()
    for folder, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        yield Path(folder), names


def _check_names(names: Sequence[str], where: Path | str) -> None:
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise PipelineError(f"{where}: has two columns {twice!r}; rename or remove one of them.")


def _decoded(table: pa.Table) -> pa.Table:
    """Decodes dictionary columns."""
    fields = [pa.field(field.name, _plain(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.list_(kind.value_type.value_type)
    return kind


def _parts(
    places: Mapping[str, Sequence[Location]], files: Callable[[Location], list[SourceFile]]
) -> dict[str, list[SourceFile]]:
    """Files by split if the path, or a folder with a folder `train`, names them; else all."""
    every = places.get(ALL, ())
    if len(every) == 1 and (every[0] / "train").is_dir():
        folders = {split: every[0] / split for split in SPLITS}
        return {split: files(folder) for split, folder in folders.items() if folder.is_dir()}
    return {part: [file for place in of for file in files(place)] for part, of in places.items()}


def _csv_file(path: Path, schema: Schema | None) -> SourceFile:
    arrow = {"string": pa.string(), "int64": pa.int64(), "float32": pa.float64()}
    types: dict[str, pa.DataType] = {}
    lists: dict[str, pa.DataType] = {}
    for feature in schema.features if schema else ():
        if describe_type(feature).startswith("list"):
            lists[feature.name] = arrow[feature.dtype]
            types[feature.name] = pa.string()
        else:
            types[feature.name] = arrow[feature.dtype]
    tasks = schema.tasks if schema else ()
    flags = {task.label_column: "label" for task in tasks}
    flags |= {task.mask: "mask" for task in tasks if task.mask and task.mask not in types}
    types |= dict.fromkeys(flags, pa.string())

    def finish(table: pa.Table) -> pa.Table:
        _check_names(table.column_names, path)
        for name in flags.keys() & set(table.column_names):
            values = _parse_flags(table[name], name, flags[name], path)
            table = table.set_column(table.column_names.index(name), name, values)
        for name in lists.keys() & set(table.column_names):
            values = _split_list(table[name], lists[name], name, path)
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    return delimited_file(path, types=types, finish=finish)


def _parse_flags(cells: pa.ChunkedArray, name: str, role: str, path: Path) -> pa.ChunkedArray:
    """Converts `1`, `0.0` or `true` to numbers."""
    text = pc.utf8_lower(cells)
    text = pc.if_else(pc.equal(text, "true"), "1", text)
    text = pc.if_else(pc.equal(text, "false"), "0", text)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"{path}: column {name!r}: expected a {role} of 0, 1, true, false or nothing: {error}. "
            f"{LABEL_ADVICE}"
        ) from error


def _split_list(
    cells: pa.ChunkedArray, kind: pa.DataType, name: str, path: Path
) -> pa.ChunkedArray:
    try:
        return pc.split_pattern(cells, LIST_SEPARATOR).cast(pa.list_(kind))
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"{path}: column {name!r}: expected {kind} values separated by "
            f"{LIST_SEPARATOR!r}: {error}."
        ) from error
