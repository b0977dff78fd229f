"""MovieLens-1M: one row per rating, with features of the user and the film.

Source: https://grouplens.org/datasets/movielens/1m/ (Harper and Konstan, 2015).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import Download, source_folder
from pipelines.ingest.delimited import read_delimited
from pipelines.ingest.source import ALL, Source, SourceFile
from serving.state.columns.times import hour_and_weekday

DOWNLOAD = Download(
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    {"ml-1m.zip": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"},
)
LIKED = 4  # a rating of at least this many stars is a like

_INT, _TEXT = pa.int64(), pa.string()
_RATINGS = {"user_id": _INT, "item_id": _INT, "rating": _INT, "timestamp": _INT}
_USERS = {"user_id": _INT, "gender": _TEXT, "age": _INT, "occupation": _INT, "zip": _TEXT}
_MOVIES = {"item_id": _INT, "title": _TEXT, "genres": _TEXT}


def read(options: DataOptions) -> Source:
    """Reads the ratings, sorted by time."""
    path = source_folder(options, DOWNLOAD)
    table = ratings_of(path)
    table = table.sort_by([(name, "ascending") for name in ("timestamp", "user_id", "item_id")])
    hour, weekday = hour_and_weekday(table["timestamp"])
    table = table.append_column("hour", hour).append_column("weekday", weekday)
    like = pc.greater_equal(table["rating"], LIKED).cast(pa.int8())
    table = table.append_column("like", like)
    return Source({ALL: [SourceFile.of_table(str(path), table)]}, user="user_id", time="timestamp")


def ratings_of(path: Path) -> pa.Table:
    """Reads the ratings in the order of the file, with the features of the user and the film.

    Args:
        path: The zip, or a folder with the zip or its files.
    """
    users = _table(path, "users.dat", _USERS)
    movies = _movies(_table(path, "movies.dat", _MOVIES))
    ratings = _table(path, "ratings.dat", _RATINGS)
    return _with(_with(ratings, users, "user_id", path), movies, "item_id", path)


def _with(ratings: pa.Table, facts: pa.Table, key: str, path: Path) -> pa.Table:
    """Joins the features of the user or the film by `key`."""
    row = pc.index_in(ratings[key], facts[key].combine_chunks())
    if row.null_count:
        raise PipelineError(f"{path}: {row.null_count} ratings name a {key} that has no entry.")
    features = facts.take(row)
    for name in facts.column_names:
        if name != key:
            ratings = ratings.append_column(name, features[name])
    return ratings


def _movies(table: pa.Table) -> pa.Table:
    """The year out of "Toy Story (1995)", and the genres as a list."""
    year = pc.struct_field(pc.extract_regex(table["title"], r"\((?P<year>\d{4})\)\s*$"), "year")
    genres = pc.split_pattern(table["genres"], "|")
    table = table.append_column("year", year.cast(_INT))
    return table.set_column(table.column_names.index("genres"), "genres", genres)


def _table(path: Path, name: str, types: dict[str, pa.DataType]) -> pa.Table:
    """Reads a `::`-separated file; no value holds a tab, so tabs replace the colons."""
    text = _content(path, name).decode("latin-1").replace("::", "\t").encode()
    file = io.BytesIO(text)
    return pa.concat_tables(read_delimited(file, f"{path}/{name}", "\t", list(types), types))


def _content(path: Path, name: str) -> bytes:
    """The file's bytes, from the folder, its `ml-1m` folder, or the zip."""
    archive = path if path.is_file() else path / "ml-1m.zip"
    for folder in (path, path / "ml-1m"):
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    if not archive.is_file():
        raise PipelineError(f"{path}: expected ml-1m.zip or {name}, found neither.")
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.read(f"ml-1m/{name}")
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise PipelineError(f"{archive}: is not the official ml-1m.zip: {error}.") from error
