"""The `[data]` table of an experiment: source, split, made columns and items."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.errors import PipelineError, did_you_mean
from pipelines.common.toml_table import TomlTable
from pipelines.ingest.aggregates.options import AggregateOptions
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
    "sequences",
]

FILES = ("csv", "parquet", "sequences")  # sources that read a user's own files


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


class SequenceOptions(TomlTable):
    """The `[data.sequences]` table: a file with one row per user and a list of items in order.

    Attributes:
        items: List column, oldest first.
        max_length: Number of last events of a history to keep.
    """

    items: str
    max_length: int = Field(default=50, ge=1)


class ItemOptions(TomlTable):
    """The `[data.items]` table: the catalogue of all items, and what is drawn from it.

    Attributes:
        key: Feature and column of the item's id, in the rows and in the item table.
        path: Parquet file or folder with one row per item. Candidate features that it has are
            joined by the id; the rows must not have them. None: the items of the train rows,
            without other features.
        negatives: Items to draw uniformly for each request of the validation and test rows, the
            same for every model. 0 when these rows have negatives of their own.
        unseen: Whether drawn items leave out those of the request's histories.
    """

    key: str
    path: str | tuple[str, ...] | None = None
    negatives: int = Field(default=0, ge=0)
    unseen: bool = True

    def places(self) -> list[Where]:
        """The files or folders of `path`: URIs, or existing local paths."""
        return _places(self.path, "data.items.path")


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
        aggregates: Columns of numbers to make from earlier rows.
        items: The catalogue of all items. None: there are only the items of the rows.
        sequences: Options of the source `sequences`.
        simulate: Options of the source `simulate`.
    """

    source: SourceName
    path: str | tuple[str, ...] | None = None
    request: str | None = None
    split: SplitOptions = SplitOptions()
    histories: tuple[HistoryOptions, ...] = ()
    aggregates: tuple[AggregateOptions, ...] = ()
    items: ItemOptions | None = None
    sequences: SequenceOptions | None = None
    simulate: SimulateOptions | None = None

    @model_validator(mode="after")
    def _options_fit_the_source(self) -> DataOptions:
        for name in ("simulate", "sequences"):
            if getattr(self, name) is not None and self.source != name:
                raise ValueError(
                    f"`{name}` belongs to the source {name!r}. Received: source={self.source!r}"
                )
        if self.source == "sequences":
            self._check_sequences()
        if self.source in FILES and not self.path:
            raise ValueError(f"`path` must name the {self.source} file or folder. Received: none")
        if isinstance(self.path, tuple) and self.source not in FILES:
            raise ValueError(
                f"`path` must be one file or folder for the source {self.source!r}. "
                f"Received: {list(self.path)}"
            )
        names = self.made
        if len(set(names)) < len(names):
            raise ValueError(
                f"`histories` and `aggregates` must have different names. Received: {names}"
            )
        times = list(dict.fromkeys(aggregate.time for aggregate in self.aggregates))
        if len(times) > 1:
            raise ValueError(f"`aggregates` must all have the same `time`. Received: {times}")
        return self

    def _check_sequences(self) -> None:
        if self.sequences is None or self.items is None:
            missing = "sequences" if self.sequences is None else "items"
            raise ValueError(
                f"the source 'sequences' needs the table `data.{missing}`. Received: none"
            )
        if "split" not in self.model_fields_set:
            object.__setattr__(self, "split", SplitOptions(by="provided"))
        if self.split.by != "provided" or self.histories or self.request:
            raise ValueError(
                "the source 'sequences' makes its own requests, histories and split: each user's "
                "last item is a test row and the one before a validation row. Remove `request`, "
                "`histories` and `split`"
            )

    @property
    def has_requests(self) -> bool:
        """Whether a request may have several rows."""
        draws = self.items is not None and self.items.negatives > 0
        return draws or self.request is not None or self.source in WITH_REQUESTS

    @property
    def made(self) -> list[str]:
        """The columns that ingest makes."""
        histories = [history.name for history in self.histories]
        return histories + [aggregate.name for aggregate in self.aggregates]

    def places(self) -> list[Where]:
        """The files or folders of `path`: URIs, or existing local paths."""
        return _places(self.path, "data.path")

    def paths(self) -> list[Path]:
        """The files or folders of `path`, for a source that reads only local files."""
        places = self.places()
        for place in filter(is_uri, places):
            raise PipelineError(
                f"`data.path`: the source {self.source!r} reads local files; only 'parquet' reads "
                f"a URI. Received: {shown(place)}. Copy the files to this machine."
            )
        return [Path(place) for place in places]


def _places(path: str | tuple[str, ...] | None, key: str) -> list[Where]:
    given = (path,) if isinstance(path, str) else path or ()
    return [_place(text, key) for text in given]


def _place(text: str, key: str) -> Where:
    for name in re.findall(r"\$\{?(\w+)\}?", text):
        if name not in os.environ:
            raise PipelineError(
                f"`{key}` = {text!r} needs the environment variable {name}, which is not "
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
    raise PipelineError(f"`{key}`: no file or folder is at {path}.{hint}")
