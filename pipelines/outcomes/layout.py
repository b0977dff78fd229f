"""The columns of served rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from pipelines.outcomes.row_times import ANSWERED, SERVED_AT, RowTimes
from pipelines.storage.columns import arrow_type
from recsys_attn.schema import Feature, is_listed

VERSION, LABEL, STATE, LAG = "served_version", "served_label", "served_state", "served_lag_seconds"
SCORE = "served_score_"  # then the task
REQUEST = "request_id"  # where the run has no column of requests


@dataclass(frozen=True)
class Layout:
    """The columns of served rows: a row is a candidate of a request.

    Attributes:
        request: Column of the request id.
        times: Column of the time of a request.
        keys: Keys of the state that are no features, with their types.
        features: All features.
        labels: Columns of labels, and of masks of tasks.
        tasks: The tasks, whose scores are logged.
    """

    request: str
    times: RowTimes
    keys: pa.Schema
    features: tuple[Feature, ...]
    labels: tuple[str, ...]
    tasks: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types in their order."""
        columns: dict[str, pa.DataType] = {self.request: pa.string()}
        if self.times.name != SERVED_AT:
            columns[self.times.name] = self.times.kind
        columns |= {field.name: field.type for field in self.keys}
        columns |= {f.name: arrow_type(f.dtype, is_listed(f)) for f in self.features}
        columns |= dict.fromkeys(self.labels, pa.int8())
        columns |= {
            SERVED_AT: ANSWERED,
            VERSION: pa.int64(),
            LABEL: pa.string(),
            STATE: pa.string(),
            LAG: pa.float64(),
        }
        columns |= {SCORE + task: pa.float32() for task in self.tasks}
        return pa.schema(columns.items())

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Names and types of the columns that may name the row of an outcome."""
        names = [self.request, *self.keys.names]
        names += [feature.name for feature in self.features if not is_listed(feature)]
        return pa.schema([self.schema.field(name) for name in names])
