"""The `[data.split]` table, the check of its times, and the times of requests."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from pipelines.common.errors import PipelineError
from pipelines.common.toml_table import TomlTable
from serving.state.columns.times import ticks_per_second, to_tick, to_ticks
from serving.state.errors import require_column

Cut = int | float | str | None  # a time as an experiment file gives it
_SHARE = 0.1
KEY = "data.split.column"


class SplitOptions(TomlTable):
    """The `[data.split]` table; the same seed always gives the same split.

    Attributes:
        by: `"time"`: the earliest requests train, the latest test. `"user"`: all rows of a
            user in one split, those without one by row. `"hash"`: by a hash of `column`, of the
            request, or of the row number. `"column"`: `column` holds `train`, `valid` or `test`.
            `"provided"`: the splits of the source's files; missing ones are taken from train by
            hash.
        column: Column of the time, the user, the hashed value or the split. None: the source's
            own.
        valid: Share of the validation rows.
        test: Share of the test rows.
        valid_from: With `by = "time"`, the first time of validation, in place of shares: a number,
            or a date or a time, as `column` holds them. Times without a zone are UTC.
        test_from: The first time of test, later than `valid_from`.
    """

    by: Literal["time", "user", "hash", "column", "provided"] = "hash"
    column: str | None = None
    valid: float = Field(default=_SHARE, ge=0, lt=1)
    test: float = Field(default=_SHARE, ge=0, lt=1)
    valid_from: Cut = None
    test_from: Cut = None

    @property
    def has_cuts(self) -> bool:
        """Whether times divide the rows, and not shares."""
        return self.valid_from is not None

    @model_validator(mode="after")
    def _leaves_rows_to_train(self) -> SplitOptions:
        if self.valid + self.test >= 1:
            raise ValueError(
                "`valid` + `test` must be below 1, so that rows are left to train. "
                f"Received: valid={self.valid}, test={self.test}"
            )
        if self.by == "column" and self.column is None:
            raise ValueError(
                '`column` must name the column that holds train, valid or test, with by = "column"'
            )
        return self

    @model_validator(mode="after")
    def _cuts_fit(self) -> SplitOptions:
        check_cuts(self.by, self.valid_from, self.test_from)
        if self.has_cuts and (self.valid, self.test) != (_SHARE, _SHARE):
            raise ValueError(
                "`valid` and `test` are shares, `valid_from` and `test_from` take their place; "
                f"remove two of them. Received: valid={self.valid}, test={self.test}"
            )
        return self


def check_cuts(by: str, valid_from: Cut, test_from: Cut) -> None:
    """Checks the first times of validation and of test as the experiment file gives them.

    Raises:
        ValueError: They do not belong to `by`, or do not fit together.
    """
    if valid_from is None and test_from is None:
        return
    received = f"Received: valid_from={valid_from!r}, test_from={test_from!r}"
    if valid_from is None or test_from is None:
        raise ValueError(f"`valid_from` and `test_from` need each other. {received}")
    if by != "time":
        raise ValueError(f'`valid_from` and `test_from` belong to by = "time". Received: by={by!r}')
    if isinstance(valid_from, str) != isinstance(test_from, str):
        raise ValueError(f"`valid_from` and `test_from` must be of one type. {received}")


def request_times(table: pa.Table, column: str, starts: np.ndarray, where: str) -> np.ndarray:
    """The earliest time of each request, in the ticks of the column.

    Args:
        table: Whole requests.
        column: The times.
        starts: First row of each request.
        where: Name of the file, for errors.
    """
    require_column(table.column_names, column, KEY, where)
    times = to_ticks(table[column], column, KEY, where)
    return np.minimum.reduceat(times, starts) if len(starts) else times


def cuts(valid_from: Cut, test_from: Cut, column: str, kind: pa.DataType, where: str) -> np.ndarray:
    """The first time of validation and of test, as `request_times` gives times.

    Raises:
        PipelineError: A cut is no time like those of the column, or they are in the wrong order.
    """
    ticks = []
    for key, cut in (("valid_from", valid_from), ("test_from", test_from)):
        tick = to_tick(cut, kind, up=True)
        if tick is None:
            is_number = ticks_per_second(kind) is None
            example = "2025-11-01 or 2025-11-01T12:00:00"
            expected = "a number" if is_number else f"a date or a time, such as {example}"
            raise PipelineError(
                f"`data.split.{key}`: expected {expected}, as {column!r} of {where} holds {kind}. "
                f"Received: {cut!r}."
            )
        ticks.append(tick)
    if not ticks[0] < ticks[1]:
        raise PipelineError(
            "`data.split.valid_from` must be before `data.split.test_from`. Received: "
            f"{valid_from!r} and {test_from!r}."
        )
    return np.array(ticks)
