"""The columns that a log lives on: user, item, time, request and labels, guessed by their names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.proposal.looked_at import Column
from serving.state.columns.arrow_kinds import is_number
from serving.state.errors import require_column

_USER = (
    "user uid member customer visitor account client buyer reader viewer person device cookie msno"
)
_ITEM = (
    "item iid product pid movie video vid ad creative sku article news doc document post photo "
    "clip track song listing hotel offer goods good asin book recipe job game app content pin"
)
_TIME = "time timestamp ts date datetime at day hour created shown"
_OUTCOMES = (
    "click clicked like liked follow followed comment commented forward share shared hate view "
    "viewed purchase purchased buy bought order ordered cart conversion converted install "
    "installed subscribe subscribed save saved favorite favourite label target reply retweet "
    "watch watched finish finished complete completed read play played book booked sale sold "
    "apply applied dislike skip skipped enter"
)
_REQUEST = "request req search query impression page pageview slate list serve batch"
# Words that say nothing of what the id is of.
_OF_IDS = "id ids idx index key hash code no num number enc md5 raw orig"
_BEGIN, _END = 9.5e8, 4.1e9  # seconds since 1970: the years 2000 to 2099
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclasses.dataclass(frozen=True)
class Roles:
    """The columns with a role; None if there is none.

    Attributes:
        labels: Columns of 0 and 1 to predict.
        user, item: Ids.
        time: The time of a row.
        request: Rows of equal values were shown together.
        other_times: Columns that may be the time too.
    """

    labels: tuple[Column, ...]
    user: Column | None = None
    item: Column | None = None
    time: Column | None = None
    request: Column | None = None
    other_times: tuple[str, ...] = ()


class NamedRoles(NamedTuple):
    """The columns that the user names; None or empty: guess.

    Attributes:
        user, item, time, request: As for `Roles`.
        labels: As for `Roles`.
    """

    user: str | None = None
    item: str | None = None
    time: str | None = None
    request: str | None = None
    labels: tuple[str, ...] = ()


def guess_roles(columns: Sequence[Column], named: NamedRoles, where: str) -> Roles:
    """The roles of the columns.

    Args:
        columns: All columns.
        named: Those that the user names.
        where: The file, for errors.

    Raises:
        PipelineError: A named column is missing, or no column is a label.
    """
    by_name = {column.name: column for column in columns}
    for option, name in _options(named):
        require_column([*by_name], name, f"--{option}", where)
    user = by_name[named.user] if named.user else _id_of(columns, _USER)
    item = by_name[named.item] if named.item else _id_of(columns, _ITEM)
    taken = {column.name for column in (user, item) if column is not None}
    labels = _labels([by_name[name] for name in named.labels], columns, where)
    taken |= {label.name for label in labels}
    times = _times([column for column in columns if column.name not in taken])
    time = by_name[named.time] if named.time else next(iter(times), None)
    others = () if named.time else tuple(column.name for column in times[1:])
    request = by_name[named.request] if named.request else None
    if request is None:
        rest = [column for column in columns if column not in (user, item, time, *labels)]
        request = next((c for c in rest if _is_request(c, user, time)), None)
    return Roles(labels, user, item, time, request, others)


def time_unit(time: Column) -> str | None:
    """The unit of times that are numbers since 1970, by their size; None if they are no such."""
    if not is_number(time.kind) or not len(time.numbers):
        return None
    low, high = time.numbers.min(), time.numbers.max()
    units = (
        unit for unit, second in UNITS.items() if _BEGIN * second <= low <= high <= _END * second
    )
    return next(units, None)


def words_of(name: str) -> list[str]:
    """The words of a name in small letters, without those of any id: "videoId" is of "video"."""
    apart = [word[:-2] if word.endswith("id") and len(word) > 4 else word for word in split(name)]
    return [word for word in apart if word not in _OF_IDS.split()]


def split(name: str) -> list[str]:
    """The words of a name in small letters: "videoId" is "video" and "id"."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return [word for word in re.split(r"[^a-z0-9]+", apart) if word]


def is_outcome(column: Column) -> bool:
    """Whether a column is of 0 and 1, with the name of an outcome."""
    return column.is_flag and bool(set(words_of(column.name)) & set(_OUTCOMES.split()))


def names_request(column: Column) -> bool:
    """Whether a column has the name of ids of requests."""
    words = words_of(column.name)
    is_id = len(words) < len(split(column.name)) or column.name.lower().endswith("id")
    return is_id and column.is_single and bool(set(words) & set(_REQUEST.split()))


def _options(named: NamedRoles) -> Iterable[tuple[str, str]]:
    for option in ("user", "item", "time", "request"):
        if name := getattr(named, option):
            yield option, name
    yield from (("labels", name) for name in named.labels)


def _id_of(columns: Sequence[Column], nouns: str) -> Column | None:
    """The column of the ids of such a thing: of several the one with the most values."""
    of_it = [
        column
        for column in columns
        if (words := words_of(column.name)) and set(words) <= set(nouns.split())
        if column.is_single
        and not column.is_flag
        and (not is_number(column.kind) or column.is_whole)
    ]
    return max(of_it, key=lambda column: column.distinct, default=None)


def _labels(named: Sequence[Column], columns: Sequence[Column], where: str) -> tuple[Column, ...]:
    for column in named:
        if not column.is_flag:
            raise PipelineError(
                f"{where}: --labels: expected a column of 0, 1 and null, with both 0 and 1. "
                f"Received: {column.name!r}, of {column.kind} with {column.distinct:,} values such "
                f"as {column.shown}. Of a number such as stars or seconds, write 1 from a limit on "
                "and 0 below it."
            )
    if named:
        return tuple(named)
    flags = [column for column in columns if column.is_flag]
    outcomes = [column for column in flags if is_outcome(column)]
    labels = outcomes or (flags if len(flags) == 1 else [])
    if not labels:
        names = ", ".join(column.name for column in flags) or "none"
        raise PipelineError(
            f"{where}: no label: no column of 0 and 1 has the name of an outcome, such as click. "
            f"Name them: --labels click,purchase. Columns of 0 and 1: {names}. Of a number such as "
            "stars or seconds, write 1 from a limit on and 0 below it."
        )
    return tuple(labels)


def _times(columns: Sequence[Column]) -> list[Column]:
    """Columns that may be the time of a row, the best one first."""
    ranked = []
    for column in columns:
        named = bool(set(words_of(column.name)) & set(_TIME.split()))
        counts = is_number(column.kind) and column.is_finite and not column.values.null_count
        since_1970 = counts and time_unit(column) is not None
        in_order = counts and named and not column.is_flag and _rises(column)
        if column.is_time or since_1970 or in_order:
            ranked.append((column.is_time or since_1970, named, column.distinct, column))
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3], reverse=True)]


def _rises(column: Column) -> bool:
    return bool((np.diff(column.numbers) >= 0).all())


def _is_request(column: Column, user: Column | None, time: Column | None) -> bool:
    """Whether rows of equal values stand together, with one user and one time."""
    if not names_request(column):
        return False
    runs = 1 + int(np.count_nonzero(np.diff(column.codes)))
    several = column.distinct < 0.9 * len(column.values)
    same = all(other is None or other.by(column) for other in (user, time))
    return several and runs == column.distinct and not column.values.null_count and same
