"""Options of the transforms from raw values to ids; a schema names one for each feature of ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recsys_attn.checks import require_positive


@dataclass(frozen=True)
class Vocabulary:
    """An id for each value of the training rows; other values are unknown.

    Args:
        min_count: Values with fewer rows are unknown. Raise it when rare ids overfit.
        max_size: Largest vocabulary, the most frequent values. Defaults to no limit.
    """

    min_count: int = 1
    max_size: int | None = None
    kind: Literal["vocabulary"] = "vocabulary"

    def __post_init__(self) -> None:
        require_positive("min_count", self.min_count)
        if self.max_size is not None:
            require_positive("max_size", self.max_size)


@dataclass(frozen=True)
class Hash:
    """A fixed hash of values to rows; nothing is fitted, and no value is unknown.

    Args:
        buckets: Rows of the table. For ids that change daily; values share rows at random.
    """

    buckets: int
    kind: Literal["hash"] = "hash"

    def __post_init__(self) -> None:
        require_positive("buckets", self.buckets)


@dataclass(frozen=True)
class Quantile:
    """The index of the bucket of a number, for `dtype = "float32"`.

    Args:
        buckets: Number of buckets; each holds an equal share of the training rows.
    """

    buckets: int = 10
    kind: Literal["quantile"] = "quantile"

    def __post_init__(self) -> None:
        if self.buckets < 2:
            raise ValueError(f"`buckets` must be at least 2. Received: buckets={self.buckets}")


@dataclass(frozen=True)
class Age:
    """The time of an event, as whole seconds before the request; for a `Sequence`.

    Such a sequence has no table. Layers that use times read it: sessions, positions by time. Ages
    of the dtype `"int64"` are exact; `"float32"` rounds those of more than 194 days (2^24 seconds).
    A negative age counts as 0. In requests NaN and infinity are missing.
    """

    kind: Literal["age"] = "age"


@dataclass(frozen=True)
class OwnTransform:
    """A user-defined transform, by its registered name.

    Args:
        name: The registered name; in an experiment file it stands as `kind`.
        options: Its options; in an experiment file they stand beside `kind`.
    """

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    kind: Literal["own"] = "own"


IdTransform = Vocabulary | Hash | Quantile | Age | OwnTransform
DEFAULT = Vocabulary()
# By the names that a user's transform must not have.
BUILT_IN: dict[str, type[IdTransform]] = {
    kind.kind: kind for kind in (Vocabulary, Hash, Quantile, Age)
}


def check_id_transform(feature: Any) -> None:
    """Raises unless the transform of a `Categorical` or a `Sequence` suits it."""
    if not isinstance(feature.transform, IdTransform):
        raise ValueError(
            "`transform` must be a Vocabulary, a Hash, a Quantile, an Age or an OwnTransform. "
            f"Received: transform={feature.transform!r}"
        )
    if isinstance(feature.transform, OwnTransform):
        return
    if isinstance(feature.transform, Age):
        if feature.table_width is not None:
            raise ValueError(
                "the transform 'age' makes times, which have no table. "
                f"Received: table_width={feature.table_width}. Remove it"
            )
        if feature.kind != "sequence" or feature.shares or feature.dtype == "string":
            raise ValueError(
                "the transform 'age' is for a Sequence of seconds that shares no table, with the "
                "dtype 'float32' or 'int64'. "
                f"Received: kind={feature.kind!r}, dtype={feature.dtype!r}"
            )
    elif isinstance(feature.transform, Quantile) != (feature.dtype == "float32"):
        raise ValueError(
            "the transforms Quantile and Age are for dtype 'float32', which takes no other one. "
            f"Received: dtype={feature.dtype!r}, transform={feature.transform.kind!r}"
        )
