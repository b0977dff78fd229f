"""Reads any CSV or Parquet files that follow a schema, or folders of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.delimited import delimited_file
from pipelines.ingest.source import ALL, CHUNK_ROWS, SPLITS, Columns, Source, SourceFile
from pipelines.storage.columns import by_name, check_names
from pipelines.storage.dataset import stored_rows
from pipelines.storage.filesystem import CSV, Storage
from pipelines.storage.footers import Footers
from pipelines.storage.partitions import partition_types, with_partitions
from recsys_attn.schema import Schema, is_listed
from serving.state.columns.labels import LABEL_ADVICE

LIST_SEPARATOR = "|"  # between the values of a list in a CSV cell


def read_parquet(options: DataOptions, schema: Schema | None = None) -> Source:
    """Reads Parquet files on this machine or at URIs."""
    return Source(_parts(options, partial(parquet_files, schema=schema)), checks_requests=True)


def read_csv(options: DataOptions, schema: Schema | None) -> Source:
    """Reads CSV files with a header; list values are separated by `|`."""
    options.paths()  # no URI
    return Source(_parts(options, partial(_csv_files, schema=schema)), checks_requests=True)


def parquet_files(place: Storage, schema: Schema | None = None) -> list[SourceFile]:
    """The Parquet files of a file or folder, each read as a stream in its stored types."""
    footers = Footers.read(place, by_name(schema))
    with_rows = set(footers.file.tolist())
    return [
        _stored_file(footers, number, number in with_rows) for number in range(len(footers.names))
    ]


def _stored_file(footers: Footers, number: int, has_rows: bool) -> SourceFile:
    schema = footers.schemas[footers.schema[number]]

    def header() -> pa.Schema | None:
        return schema if has_rows else None

    def read(columns: Columns) -> Iterator[pa.Table]:
        names = schema.names
        if columns is not None and columns <= set(names):
            names = sorted(columns)  # else all: the error for a missing one lists them
        yield from stored_rows(footers, number, names, CHUNK_ROWS)

    return SourceFile(footers.file_name(number), read, header)


def _parts(
    options: DataOptions, files: Callable[[Storage], list[SourceFile]]
) -> dict[str, list[SourceFile]]:
    """Files by split if the path, or a folder with a folder `train`, names them; else all."""
    places = {
        part: [Storage.of(place) for place in of] for part, of in options.places_by_part().items()
    }
    every = places.get(ALL, ())
    if len(every) == 1 and (every[0] / "train").is_dir():
        folders = {split: every[0] / split for split in SPLITS}
        return {split: files(folder) for split, folder in folders.items() if folder.is_dir()}
    return {part: [file for place in of for file in files(place)] for part, of in places.items()}


def _csv_files(place: Storage, schema: Schema | None) -> list[SourceFile]:
    names = place.files(CSV)
    types = partition_types(names, by_name(schema))
    return [_csv_file(Path(place.file_name(name)), name, types, schema) for name in names]


def _csv_file(
    path: Path, relative: str, partitions: Mapping[str, pa.DataType], schema: Schema | None
) -> SourceFile:
    arrow = {"string": pa.string(), "int64": pa.int64(), "float32": pa.float64()}
    types: dict[str, pa.DataType] = {}
    lists: dict[str, pa.DataType] = {}
    for feature in schema.features if schema else ():
        if is_listed(feature):
            lists[feature.name] = arrow[feature.dtype]
            types[feature.name] = pa.string()
        else:
            types[feature.name] = arrow[feature.dtype]
    tasks = schema.tasks if schema else ()
    flags = {task.label_column: "label" for task in tasks}
    flags |= {task.mask: "mask" for task in tasks if task.mask and task.mask not in types}
    types |= dict.fromkeys(flags, pa.string())

    def finish(table: pa.Table) -> pa.Table:
        check_names(table.column_names, str(path))
        for name in flags.keys() & set(table.column_names):
            values = _parse_flags(table[name], name, flags[name], path)
            table = table.set_column(table.column_names.index(name), name, values)
        for name in lists.keys() & set(table.column_names):
            values = _split_list(table[name], lists[name], name, path)
            table = table.set_column(table.column_names.index(name), name, values)
        return with_partitions(table, relative, partitions, str(path))

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
