"""The `[data]` table of an experiment: source, split and histories."""

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


WITH_REQUESTS: tuple[SourceName, ...] = ("simulate", "trivago")  # have requests of their own


class SplitOptions(TomlTable):
    """The `[data.split]` table; the same seed always gives the same split.

    Attributes:
        by: `"time"`: the earliest requests train, the latest test. `"user"`: all rows of a
            user in one split. `"hash"`: by a hash of `column`, of the request, or of the row
            number. `"provided"`: the splits of the source's files; missing ones are taken from
            train by hash.
        column: Column of the time, the user or the hashed value. None: the source's
            own.
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
    """A history: a list column of earlier values with the same `by`.

    Attributes:
        name: The new column.
        of: Column whose past values it lists, oldest first.
        by: Column of the owner, such as the user; equal values share one history.
        time: Column that orders the events. Only strictly earlier events count; for the rows of a
            request, those before its earliest time.
        where: Label column; only rows with 1 become events.
        max_length: Number of last events to keep.
    """

    name: str
    of: str
    by: str
    time: str
    where: str | None = None
    max_length: int = Field(default=50, ge=1)


class SimulateOptions(TomlTable):
    """The `[data.simulate]` table: size and character of the simulated marketplace.

    Attributes:
        rows: Number of rows, rounded down to whole requests.
        candidates: Candidates of a request.
        users, items: Number of users and items; at least 96 items, for all hidden styles.
        history_length: Maximum length of a history.
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
        source: The reader; `csv` and `parquet` read any file, folder or list of files.
        path: File or folder; `${NAME}` is replaced by an environment variable. None downloads
            a source that may be downloaded. `parquet` also reads URIs of filesystems that
            pyarrow supports: s3://, gs://, hdfs://.
        request: Column of the request id. None: the source's own.
        split: Division into train, valid and test.
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

    @property
    def has_requests(self) -> bool:
        """Whether a request may have several rows."""
        return self.request is not None or self.source in WITH_REQUESTS

    def places(self) -> list[Where]:
        """The files or folders of `path`: URIs, or existing local paths."""
        given = (self.path,) if isinstance(self.path, str) else self.path or ()
        return [_place(text) for text in given]

    def paths(self) -> list[Path]:
        """The files or folders of `path`, for a source that reads only local files."""
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
