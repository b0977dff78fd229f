"""The schema of sequences, from the columns that ingest wrote."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.ingest.events.event_options import AGE
from recsys_attn.id_transforms import Age
from recsys_attn.schema import RawType, Schema, Sequence
from serving.state.columns.arrow_kinds import is_text


def schema_of(columns: pa.Schema, item: str, others: tuple[str, ...], length: int) -> Schema:
    """Returns the schema of one history.

    Args:
        columns: The columns of a split.
        item: The column of items.
        others: Further columns of events.
        length: The most events.
    """
    sequences = [
        Sequence(name, dtype=_raw_type(name, columns.field(name).type), max_length=length)
        for name in (item, *others)
    ]
    return Schema((*sequences, ages(length)), ())


def ages(length: int) -> Sequence:
    """The sequence of the ages of the events."""
    # float32 lacks most whole seconds above 2^24, half a year.
    return Sequence(AGE, dtype="int64", transform=Age(), max_length=length)


def _raw_type(name: str, kind: pa.DataType) -> RawType:
    values = kind.value_type
    if pa.types.is_integer(values):
        return "int64"
    if is_text(values):
        return "string"
    raise PipelineError(
        f"Column {name!r}: expected strings or integers, which become ids. Received: {values}."
    )


def with_length(fitted: FittedFeatures, length: int) -> FittedFeatures:
    """The transforms, for histories of another length."""
    features = tuple(
        dataclasses.replace(f, max_length=length) if isinstance(f, Sequence) else f
        for f in fitted.schema.features
    )
    return dataclasses.replace(fitted, schema=Schema(features, ()))
