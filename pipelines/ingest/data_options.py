"""The `[data]` table of an experiment: source, split, made columns, items and users."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pipelines.common.errors import PipelineError
from pipelines.common.toml_table import TomlTable
from pipelines.ingest.source import ALL, SOURCES, SPLITS
from pipelines.ingest.split_options import SplitOptions
from pipelines.storage.filesystem import ANY, Storage, Where, is_uri, shown
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import TimeUnit
from serving.state.definitions.durations import Duration, check_durations
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import did_you_mean


def known_source(name: str) -> str:
    """The name of a built-in or a registered source; another is an error."""
    if name not in SOURCES:
        names = list(map(repr, SOURCES))
        near = did_you_mean(name, SOURCES, lambda source: f"`{source}`")
        raise ValueError(
            f"expected {', '.join(names[:-1])} or {names[-1]}. Received: {json.dumps(name)}.{near}"
        )
    return name


class SequenceOptions(TomlTable):
    """The `[data.sequences]` table: a file with one row per user and a list of items in order.

    Attributes:
        items: List column, oldest first.
        max_length: Number of last events of a history to keep.
    """

    items: str
    max_length: int = Field(default=50, ge=1)


class ItemOptions(TomlTable):
    """The `[data.items]` table: all items, and the draws from them.

    Attributes:
        key: Feature and column of the item's id, in the rows and in the item table.
        path: Parquet file or folder with one row per item. Candidate features that it has are
            joined by the id; the rows must not have them. None: the source's own table, and if
            it has none, the items of the train rows, without other features.
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
        return [_place(text, "data.items.path") for text in _listed(self.path)]


class UserOptions(TomlTable):
    """The `[data.users]` table: features of users that do not change from event to event.

    Attributes:
        key: Column of the user's id, in the rows and in the user table; it may be a feature, too.
        path: Parquet file or folder with one row per user. Context features that it has are
            joined by the id; the rows must not have them. None: the source's own table.
    """

    key: str
    path: str | tuple[str, ...] | None = None

    def places(self) -> list[Where]:
        """The files or folders of `path`: URIs, or existing local paths."""
        return [_place(text, "data.users.path") for text in _listed(self.path)]


class SimulateOptions(TomlTable):
    """The `[data.simulate]` table: size and character of the simulated marketplace.

    Attributes:
        rows: Number of rows, rounded down to whole requests.
        candidates: Candidates of a request.
        users, items: Number of users and items; at least 96 items, for all hidden styles.
        history_length: Maximum length of a history.
        recent: Latest events of a history that say nothing of the user; histories are longer. Set
            it to try what finds a signal far back.
        correlation: Correlation of the conversion's logit with the click's.
        days: Days over which the rows are spread as one log: histories are those of the log, for
            `[[data.histories]]`, and features of users and items are tables of their own, for
            `[data.users]` and `[data.items]`. None: independent requests, with these columns.
        drift: How far a day moves tastes: the share of users with new interests, and of the
            standard deviation of each effect that is new. 0: nothing moves.
    """

    rows: int = Field(default=100_000, ge=1)
    candidates: int = Field(default=5, ge=1)
    users: int = Field(default=5_000, ge=10)
    items: int = Field(default=480, ge=96)
    history_length: int = Field(default=20, ge=1)
    recent: int = Field(default=0, ge=0)
    correlation: float = Field(default=0.5, ge=-1, le=1)
    days: int | None = Field(default=None, ge=1)
    drift: float = Field(default=0.3, ge=0, le=1)

    @model_validator(mode="after")
    def _sizes_fit(self) -> SimulateOptions:
        if self.candidates > self.rows or 2 * self.candidates > self.items:
            raise ValueError(
                "`candidates` must be at most `rows` and at most half of `items`. Received: "
                f"candidates={self.candidates}, rows={self.rows}, items={self.items}"
            )
        if self.recent >= self.history_length:
            raise ValueError(
                "`recent` must be less than `history_length`. Received: "
                f"recent={self.recent}, history_length={self.history_length}"
            )
        if self.days is None and self.drift != type(self).model_fields["drift"].default:
            raise ValueError(f"`drift` needs `days`. Received: drift={self.drift}, days=None")
        return self


class SplitPaths(TomlTable):
    """The `[data.path]` table: files, folders or lists of them, by split.

    Attributes:
        train: Rows to train on.
        valid: Validation rows. None: taken from `train`, by `data.split.valid`.
        test: Test rows. None: taken from `train`, by `data.split.test`.
    """

    train: str | tuple[str, ...]
    valid: str | tuple[str, ...] | None = None
    test: str | tuple[str, ...] | None = None

    def by_part(self) -> dict[str, tuple[str, ...]]:
        """The given paths by split."""
        return {name: _listed(value) for name, value in self if value is not None}

    @model_validator(mode="after")
    def _differ(self) -> SplitPaths:
        every = [path for paths in self.by_part().values() for path in paths]
        twice = next((path for path in every if every.count(path) > 1), None)
        if twice is not None:
            raise ValueError(f"each split must have files of its own. Received twice: {twice}")
        return self


class DataOptions(TomlTable):
    """The `[data]` table.

    Attributes:
        source: The reader; `csv` and `parquet` read any file, folder or list of files. The name of
            your own source is one too.
        path: File, folder, list of them, or a table of them by split; `${NAME}` is replaced by an
            environment variable. None: a source that may be downloaded is. `parquet` also reads
            URIs of filesystems that pyarrow supports: s3://, gs://, hdfs://.
        request: Column of the request id. None: the source's own.
        split: Division into train, valid and test.
        histories: List columns to make from earlier rows.
        aggregates: Columns of numbers to make from earlier rows.
        features_over_time: Whether columns of `histories` and `aggregates` that no entry of
            `[[features]]` names are features: sequences with the table of `of`, and numbers, by
            `log1p` if they are counts, sums or times, of the context if all columns of `by` are.
        time_unit: Unit of the times of `histories` and `aggregates`, or of `split.column` without
            them, that are numbers since 1970, so that an online store knows the time of now. Dates
            and timestamps need none.
        event_id: Column of an event's id: rows of equal id, key and time are one event that has
            arrived again, perhaps with a label that was not known before. None: each row is one.
            It needs `late`, as ids are held so long.
        late: How much older than the newest event an event may be that reaches an online store.
            Written like `window` of `[[data.aggregates]]`. An older one is not counted there, but
            written to a file of its own. None: any age.
        behind: Folder of an earlier run. The rows follow its last row: histories and aggregates see
            its events too, and vocabularies keep its ids. A made column, or one of `items` or
            `users`, that the rows have stays as it is. None: nothing comes before the rows.
        state_of: Rows whose events the state after this run has. `"train"`: it leaves those of
            validation and test to a later run behind this one, which trains on them. Needs `path`
            as a table.
        items: The catalogue of all items. None: there are only the items of the rows.
        users: Static features of users. None: all features are in the rows.
        sequences: Options of the source `sequences`.
        simulate: Options of the source `simulate`.
        options: Options of your own source.
    """

    source: Annotated[str, AfterValidator(known_source)]
    path: str | tuple[str, ...] | SplitPaths | None = None
    request: str | None = None
    split: SplitOptions = SplitOptions()
    histories: tuple[HistoryOptions, ...] = ()
    aggregates: tuple[AggregateOptions, ...] = ()
    features_over_time: bool = False
    time_unit: TimeUnit | None = None
    event_id: str | None = None
    late: Duration | None = None
    behind: Path | None = None
    state_of: Literal["all", "train"] = "all"
    items: ItemOptions | None = None
    users: UserOptions | None = None
    sequences: SequenceOptions | None = None
    simulate: SimulateOptions | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_fit_the_source(self) -> DataOptions:
        for name in ("simulate", "sequences"):
            if getattr(self, name) is not None and self.source != name:
                raise ValueError(
                    f"`{name}` belongs to the source {name!r}. Received: source={self.source!r}"
                )
        if self.source == "sequences":
            self._check_sequences()
        kind = SOURCES[self.source]
        reads_files = kind.file_suffixes is not None
        if reads_files and not self.path:
            raise ValueError(f"`path` must name the {self.source} file or folder. Received: none")
        is_of_user = kind.func is not None
        if self.options and not is_of_user:
            raise ValueError(
                "`options` are those of your own source, registered in a module of `imports`. "
                f"Received: source={self.source!r}"
            )
        if not (isinstance(self.path, str | None) or reads_files or is_of_user):
            raise ValueError(
                f"`path` must be one file or folder for the source {self.source!r}. "
                f"Received: {self.path!r}"
            )
        if isinstance(self.path, SplitPaths) and self.split.by != "provided":
            raise ValueError(
                '`path` names files by split, which belongs to split = { by = "provided" }. '
                f"Received: by={self.split.by!r}"
            )
        names = self.made
        if len(set(names)) < len(names):
            raise ValueError(
                f"`histories` and `aggregates` must have different names. Received: {names}"
            )
        times = [made.time for made in self.aggregates] + [made.time for made in self.histories]
        times = list(dict.fromkeys(times))
        if len(times) > 1:
            raise ValueError(
                f"`histories` and `aggregates` must all have the same `time`. Received: {times}"
            )
        check_durations([("late", self.late)])
        if self.state_of == "train" and not (names and isinstance(self.path, SplitPaths)):
            raise ValueError(
                '`state_of` = "train" leaves out the events of files for validation and test. It '
                "needs `histories` or `aggregates`, and `path` as a table of the files of each "
                f"split. Received: path={self.path!r}"
            )
        self._check_of_time()
        return self

    def _check_of_time(self) -> None:
        """Checks the keys that say something of made columns."""
        of_time: dict[str, Any] = {"late": self.late, "event_id": self.event_id}
        if self.split.by != "time" or self.split.column is None:
            of_time["time_unit"] = self.time_unit
        of_time["features_over_time"] = self.features_over_time or None
        unused = [key for key, value in of_time.items() if value is not None]
        if unused and not self.made:
            raise ValueError(
                f"`{unused[0]}` belongs to `histories` and `aggregates`. Received: neither"
            )
        if self.event_id is not None and self.late is None:
            raise ValueError(
                "`event_id` needs `late`, the time for which the ids of events are held. Received: "
                "late=None"
            )

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
        return draws or self.request is not None or SOURCES[self.source].has_requests

    @property
    def made(self) -> list[str]:
        """The columns that ingest makes."""
        histories = [history.name for history in self.histories]
        return histories + [aggregate.name for aggregate in self.aggregates]

    @property
    def time(self) -> str | None:
        """The column of the times of the columns that ingest makes."""
        times = [history.time for history in self.histories]
        times += [aggregate.time for aggregate in self.aggregates]
        return times[0] if times else None

    @property
    def has_state(self) -> bool:
        """Whether ingest writes a state, from which a store continues."""
        return bool(self.made) or self.users is not None

    def places_by_part(self) -> dict[str, list[Where]]:
        """The files or folders of `path` by split, or all under `ALL`; local ones exist."""
        if isinstance(self.path, SplitPaths):
            paths = self.path.by_part()
        else:
            paths = {ALL: _listed(self.path)}
        return {part: [_place(text) for text in texts] for part, texts in paths.items()}

    def stamps(self, parts: Collection[str] = (ALL, *SPLITS)) -> dict[str, str]:
        """Size and modification time of the source's, the items' and the users' files, by name.

        Args:
            parts: Splits whose files they are, of a `path` by split.
        """
        stamps: dict[str, str] = {}
        for part, places in self.places_by_part().items():
            for place in places if part in parts else ():
                stamps |= Storage.of(place).stamps(SOURCES[self.source].file_suffixes or ANY)
        tables = [table for table in (self.items, self.users) if table is not None]
        for place in (place for table in tables for place in table.places()):
            stamps |= Storage.of(place).stamps()
        return stamps

    @property
    def parts_of_state(self) -> tuple[str, ...]:
        """The parts of a source whose events the state has."""
        return ("train",) if self.state_of == "train" else (ALL, *SPLITS)

    def paths_by_part(self) -> dict[str, list[Path]]:
        """`places_by_part`, for a source that reads only local files."""
        return {part: self._local(places) for part, places in self.places_by_part().items()}

    def places(self) -> list[Where]:
        """All files or folders of `path`: URIs, or existing local paths."""
        return [place for places in self.places_by_part().values() for place in places]

    def paths(self) -> list[Path]:
        """`places`, for a source that reads only local files."""
        return self._local(self.places())

    def _local(self, places: list[Where]) -> list[Path]:
        for place in filter(is_uri, places):
            raise PipelineError(
                f"`data.path`: the source {self.source!r} reads local files; only 'parquet' reads "
                f"a URI. Received: {shown(place)}. Copy the files to this machine."
            )
        return [Path(place) for place in places]


def _listed(path: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if path is None:
        return ()
    return (path,) if isinstance(path, str) else path


def _place(text: str, key: str = "data.path") -> Where:
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
