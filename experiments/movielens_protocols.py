"""MovieLens-1M as published results had it: sources of the experiments beside this file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.ingest.datasets.movielens import LIKED, ratings_of
from pipelines.ingest.source import SOURCES

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_UNDECIDED = 3  # stars
_TRAIN, _VALID = 0.8, 0.9
_DAY = 24 * 3600
_RECHORUS_ZONE = 8 * 3600  # seconds ahead of UTC; with it the numbers of rows are ReChorus's
_CORE = 5
_AT_ONCE = 50_000  # rows with their lists of likes
# Ends of the periods of a day after 4 h, as ReChorus has them; 22 and 23 h are the last.
_PERIODS = (5, 9, 11, 13, 16, 18, 20, 22)


@SOURCES.register("movielens-1m-autoint")
def autoint_protocol(path: str) -> Iterator[pa.Table]:
    """The rows of AutoInt's authors: no ratings of 3, split at random, years in 36 groups.

    Source: DeepGraphLearning/RecommenderSystems, featureRec/movielens/data/preprocess.py.
    """
    table = ratings_of(Path(path))
    table = table.filter(pa.array(table["rating"].to_numpy() != _UNDECIDED))
    order = list(range(len(table)))
    random.Random(2019).shuffle(order)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    year, time = (table[name].to_numpy() for name in ("year", "timestamp"))
    decade = np.where(year < 1930, 1920, year // 10 * 10)
    columns = {
        "year": np.where(year < 1970, decade, year),
        "time": (time - time.min()) / np.ptp(time),
        "like": _likes(table),
        "split": _splits(place, int(len(order) * _TRAIN), int(len(order) * _VALID)),
    }
    yield _with(table, columns)


@SOURCES.register("movielens-1m-rechorus")
def rechorus_protocol(path: str, *, positives: bool = False) -> Iterator[pa.Table]:
    """The rows of ReChorus 2.0: five likes of each user and film, split by day.

    Validation and test rows are those of users and films in the train rows.

    Source: THUwangcy/ReChorus, data/MovieLens_1M/MovieLens-1M.ipynb.

    Args:
        path: The folder of the provider's files.
        positives: Whether to keep likes only, for the top-k task. `likes` then has the films that
            may not be drawn beside a row: all that the user liked, for train rows in train rows.
    """
    table = ratings_of(Path(path))
    user, item = (table[name].to_numpy() for name in ("user_id", "item_id"))
    like = _likes(table) == 1
    kept = _core(user, item, like)
    local = table["timestamp"].to_numpy() + _RECHORUS_ZONE
    day = local // _DAY
    day = day - day[kept].min()
    kept &= like | (not positives)
    last = int(day[kept].max())
    split = _splits(day, int(last * _TRAIN) + 1, int(last * _VALID) + 1)
    train = kept & (split == "train")
    known = np.isin(user, user[train]) & np.isin(item, item[train])
    hour = local % _DAY // 3600
    columns = {
        "like": like.astype(np.int8),
        "hour": hour,
        "weekday": (local // _DAY + 3) % 7,  # the first day of Unix was a Thursday
        "period": np.where(hour < _PERIODS[0], len(_PERIODS), np.digitize(hour, _PERIODS) - 1),
        "day": day,
        "split": split,
        "genre": ["|".join(each) for each in table["genres"].to_pylist()],
    }
    rows = np.flatnonzero(kept & (train | known))
    rows = rows[np.lexsort((item[rows], user[rows], local[rows]))]
    found = _with(table, columns).take(rows)
    if positives:
        is_train = split[rows] == "train"
        of_train, of_all = _lists(user[rows], item[rows], is_train), _lists(user[rows], item[rows])
        for begin in range(0, len(rows), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            users = user[rows][part]
            likes = [
                (of_train if train else of_all)[each]
                for each, train in zip(users, is_train[part], strict=True)
            ]
            column = pa.array(likes, pa.list_(pa.int64()))
            yield found.slice(begin, _AT_ONCE).append_column("likes", column)
        return
    yield found


def _core(user: Ints, item: Ints, like: Bools) -> Bools:
    """Rows of users and items with at least `_CORE` likes in these rows."""
    kept = np.ones(len(user), bool)
    while True:
        liked = kept & like
        enough = [np.bincount(ids[liked], minlength=ids.max() + 1) >= _CORE for ids in (user, item)]
        fewer = kept & enough[0][user] & enough[1][item]
        if np.array_equal(fewer, kept):
            return kept
        kept = fewer


def _lists(user: Ints, item: Ints, where: Bools | None = None) -> dict[int, Ints]:
    """The items of each user in their order."""
    rows = np.arange(len(user)) if where is None else np.flatnonzero(where)
    rows = rows[np.argsort(user[rows], kind="stable")]
    users, begins = np.unique(user[rows], return_index=True)
    return dict(zip(users.tolist(), np.split(item[rows], begins[1:]), strict=True))


def _splits(place: Ints, valid_from: int, test_from: int) -> NDArray[np.str_]:
    return np.array(["train", "valid", "test"])[np.digitize(place, [valid_from, test_from])]


def _likes(table: pa.Table) -> NDArray[np.int8]:
    return np.asarray(table["rating"].to_numpy() >= LIKED, np.int8)


def _with(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The table with further columns, which take the place of those of their names."""
    left = table.drop_columns([name for name in columns if name in table.column_names])
    for name, values in columns.items():
        left = left.append_column(name, pa.array(values))
    return left
