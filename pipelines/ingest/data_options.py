"""The `[data]` table of an experiment: where the rows come from and how they are split."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.errors import PipelineError, did_you_mean
from pipelines.common.toml_table import TomlTable
from pipelines.storage.filesystem import Where, is_uri, shown

SourceName = Literal[
    "simulate",
    "movielens-1m",
    "census-income",
    "frappe",
    "trivago",
    "criteo",
    "avazu",
    "csv",
    "parquet",
]


class SplitOptions(TomlTable):
    """How rows are divided into train, valid and test; always the same for the same seed.

    Attributes:
        by: `"time"`: the earliest requests train, the latest test. `"user"`: all rows of a
            user in one split. `"hash"`: by a hash of `column`, of the request, or of the row
            number. `"provided"`: as the source's own files say; what they lack is cut from
            train by hash.
        column: The column of the time, the user or the hashed value; the source's own
            where None.
        valid: Share of the validation rows.
        test: Share of the test rows.
    """

    by: Literal["time", "user", "hash", "provided"] = "hash"
    column: str | None = None
    valid: float = Field(default=0.1, ge=0, lt=1)
    test: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _leaves_rows_to_train(self) -> SplitOptions:
        if self.valid + self.test >= 1:
            raise ValueError(
                "`valid` + `test` must be below 1, so that rows are left to train. "
                f"Received: valid={self.valid}, test={self.test}"
            )
        return self


class HistoryOptions(TomlTable):
    """A list column of what the same `by` did strictly earlier than the row.

    Attributes:
        name: The new column.
        of: Column whose past values it lists, oldest first.
        by: Whose past: rows of equal value share one history.
        time: Column that orders the events; equal times never see each other, and the rows of a
            request see what was there at its earliest time.
        where: Label column; only rows where it is 1 become events.
        max_length: Events kept (the last ones).
    """

    name: str
    of: str
    by: str
    time: str
    where: str | None = None
    max_length: int = Field(default=50, ge=1)


class SimulateOptions(TomlTable):
    """Size and character of the simulated marketplace.

    Attributes:
        rows: Rows in all; whole requests, so a remainder of `rows / candidates` is left out.
        candidates: Items shown in one request.
        users, items: How many there are; 96 items at least, so that every hidden style has some.
        history_length: Longest history; lengths vary from 0 to this.
        correlation: Correlation of the conversion's logit with the click's.
    """

    rows: int = Field(default=100_000, ge=1)
    candidates: int = Field(default=5, ge=1)
    users: int = Field(default=5_000, ge=10)
    items: int = Field(default=480, ge=96)
    history_length: int = Field(default=20, ge=1)
    correlation: float = Field(default=0.5, ge=-1, le=1)

    @model_validator(mode="after")
    def _sizes_fit(self) -> SimulateOptions:
        if self.candidates > self.rows or 2 * self.candidates > self.items:
            raise ValueError(
                "`candidates` must be at most `rows` and at most half of `items`. Received: "
                f"candidates={self.candidates}, rows={self.rows}, items={self.items}"
            )
        return self


class DataOptions(TomlTable):
    """The whole `[data]` table.

    Attributes:
        source: Which reader; `csv` and `parquet` read any file, folder or list of files.
        path: The downloaded file or its folder, `${NAME}` stands for an environment
            variable; a source that may be downloaded is, where None. `parquet` also reads the
            URI of a filesystem that pyarrow knows: s3://, gs://, hdfs://.
        request: Column that names a row's request; the source's own where None.
        split: How the rows are divided.
        histories: List columns to make from earlier rows.
        simulate: Options of the source `simulate`.
    """

    source: SourceName
    path: str | tuple[str, ...] | None = None
    request: str | None = None
    split: SplitOptions = SplitOptions()
    histories: tuple[HistoryOptions, ...] = ()
    simulate: SimulateOptions | None = None

    @model_validator(mode="after")
    def _options_fit_the_source(self) -> DataOptions:
        if self.simulate is not None and self.source != "simulate":
            raise ValueError(
                f"`simulate` belongs to the source 'simulate'. Received: source={self.source!r}"
            )
        if self.source in ("csv", "parquet") and not self.path:
            raise ValueError(f"`path` must name the {self.source} file or folder. Received: none")
        if isinstance(self.path, tuple) and self.source not in ("csv", "parquet"):
            raise ValueError(
                f"`path` must be one file or folder for the source {self.source!r}. "
                f"Received: {list(self.path)}"
            )
        names = [history.name for history in self.histories]
        if len(set(names)) < len(names):
            raise ValueError(f"`histories` must have different names. Received: {names}")
        return self

    def places(self) -> list[Where]:
        """The files or folders that `path` names: URIs, and local ones, which exist."""
        given = (self.path,) if isinstance(self.path, str) else self.path or ()
        return [_place(text) for text in given]

    def paths(self) -> list[Path]:
        """The same for a source that reads local files alone."""
        places = self.places()
        for place in filter(is_uri, places):
            raise PipelineError(
                f"`data.path`: the source {self.source!r} reads local files; only 'parquet' reads "
                f"a URI. Received: {shown(place)}. Copy the files to this machine."
            )
        return [Path(place) for place in places]


def _place(text: str) -> Where:
    for name in re.findall(r"\$\{?(\w+)\}?", text):
        if name not in os.environ:
            raise PipelineError(
                f"`data.path` = {text!r} needs the environment variable {name}, which is not "
                f"set: run `export {name}=/your/folder`, or write a path."
            )
    filled = os.path.expandvars(text)
    if is_uri(filled):
        return filled
    path = Path(filled).expanduser()
    if path.exists():
        return path
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = did_you_mean(path.name, siblings, lambda near: str(path.parent / near))
    raise PipelineError(f"`data.path`: no file or folder is at {path}.{hint}")
