"""The schema: the features and tasks of a model.

It defines the Parquet columns, the fitted transforms, the model's inputs, the SavedModel's
signature and a client's request.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from recsys_attn.checks import (
    errors_of,
    require_different,
    require_number,
    require_positive,
    unknown_name,
)
from recsys_attn.id_transforms import (
    BUILT_IN,
    DEFAULT,
    Age,
    IdTransform,
    OwnTransform,
    check_id_transform,
)
from recsys_attn.loss_options import LossName, LossOptions, loss_options
from recsys_attn.number_options import (
    DEFAULT_ENCODING,
    EncodingName,
    NumericTransform,
    check_encoding,
    check_transform,
)

Side = Literal["context", "candidate"]
RawType = Literal["string", "int64", "float32"]

PADDING_ID = 0  # a missing value or padding: never attended, embedded as zeros
UNKNOWN_ID = 1  # a value outside of the fitted vocabulary
RESERVED_IDS = 2
CANDIDATE_MASK = "candidate_mask"  # optional model input (B, T): False for padded candidates


class _OfColumn:
    """A feature's column of raw values."""

    name: str
    column: str | None

    @property
    def column_name(self) -> str:
        return self.column or self.name


@dataclass(frozen=True)
class Categorical(_OfColumn):
    """One id, or a bag of ids when `multivalued` (embedded as their mean).

    Args:
        name: Name of the feature: of the model's input, and in reports.
        side: `"context"` (user and moment, once per request) or `"candidate"`.
        dtype: Type of the raw value; `"float32"` with the transform `"quantile"`.
        transform: Transform from raw values to ids: a table, or the name of its kind.
        multivalued: Whether a row has a list of values.
        max_length: Largest number of values of a multi-valued row; the last ones are kept.
        width: Embedding width. Defaults to that of the model.
        table_width: Width of a narrower table, whose rows a matrix projects to the embedding width;
            for a table that is too large. Defaults to a table of the embedding width.
        size: Number of rows of its table, including reserved ids; set by fitting, so left out in
            an experiment file.
        column: Column of the raw values, and input of requests. Defaults to the name.
    """

    name: str
    side: Side = "candidate"
    dtype: RawType = "string"
    transform: IdTransform = DEFAULT
    multivalued: bool = False
    max_length: int = 20
    width: int | None = None
    table_width: int | None = None
    size: int | None = None
    column: str | None = None
    kind: Literal["categorical"] = "categorical"

    def __post_init__(self) -> None:
        _check_id_feature(self)


@dataclass(frozen=True)
class Numeric(_OfColumn):
    """A number, embedded by its encoding; a missing one is zeros.

    Args:
        name: Name of the feature: of the model's input, and in reports.
        side: `"context"` (user and moment, once per request) or `"candidate"`.
        transform: Steps in their order: `"log1p"` (`sign(x) log(1 + |x|)`, so negative numbers
            keep their sign), `"standardise"` (subtracts the mean of the training rows and divides
            by their deviation).
        width: Embedding width. Defaults to that of the model.
        encoding: From the transformed value to a vector: `"linear"` is the value times a vector;
            `"buckets"` adds a vector of its quantile bucket; `"piecewise_linear"` is a polygon over
            its quantiles; `"periodic"` has waves, `"autodis"` a mean of vectors by learned weights.
            Choose `"linear"` to compare with papers.
        bins: Number of buckets, pieces, frequencies or averaged vectors, for all encodings but
            `"linear"`. Raise it with millions of rows.
        boundaries: Quantiles of the transformed training values, in increasing order; set by
            fitting, so left out in an experiment file. Defaults to those of standard normal values.
        dtype: Type of the raw value.
        column: As for `Categorical`. A column that another feature reads as `"int64"` is that.
    """

    name: str
    side: Side = "candidate"
    transform: tuple[NumericTransform, ...] = ("standardise",)
    width: int | None = None
    encoding: EncodingName = DEFAULT_ENCODING
    bins: int = 20
    boundaries: tuple[float, ...] | None = None
    dtype: Literal["float32"] = "float32"
    column: str | None = None
    kind: Literal["numeric"] = "numeric"

    def __post_init__(self) -> None:
        _check_feature(self)
        with errors_of(f"Feature {self.name!r}"):
            check_transform(self.transform)
            check_encoding(self.encoding, self.bins, self.boundaries)
        object.__setattr__(self, "transform", tuple(self.transform))
        if self.boundaries is not None:
            object.__setattr__(self, "boundaries", tuple(self.boundaries))


@dataclass(frozen=True)
class Sequence(_OfColumn):
    """A list of past events per request, oldest first, as ids.

    Args:
        name: Name of the feature: of the model's input, and in reports.
        shares: A categorical feature whose transform and table it shares, so that a past item and a
            candidate item are the same vector.
        history: Name of the history. Sequences of one history are aligned: entry s of each belongs
            to event s.
        max_length: Largest number of events; the last ones are kept.
        dtype, transform, width, table_width, size: As for `Categorical`. With `shares`, they must
            not differ from those of the other feature; all but `dtype` may be omitted.
        column: As for `Categorical`. Sequences of one column have one `history`.
    """

    name: str
    shares: str | None = None
    history: str = "history"
    max_length: int = 50
    dtype: RawType = "string"
    transform: IdTransform = DEFAULT
    width: int | None = None
    table_width: int | None = None
    size: int | None = None
    column: str | None = None
    kind: Literal["sequence"] = "sequence"

    @property
    def side(self) -> Side:
        return "context"

    def __post_init__(self) -> None:
        _check_id_feature(self)


Feature = Categorical | Numeric | Sequence


def is_listed(feature: Feature) -> TypeGuard[Categorical | Sequence]:
    """Returns whether a request has a list of values for this feature."""
    return isinstance(feature, Sequence) or (
        isinstance(feature, Categorical) and feature.multivalued
    )


def is_age(feature: Feature) -> bool:
    """Returns whether a feature has the times of events, which no table embeds."""
    return isinstance(feature.transform, Age)


@dataclass(frozen=True)
class Task:
    """A prediction target: a 0/1 label, null (or with a false `mask` column) if unknown.

    Args:
        name: Name of the output of the model and of the signature.
        label: Column of the label. Defaults to the name.
        weight: Weight of the loss in the sum of all tasks.
        mask: Boolean or 0/1 column; rows with a false value do not count for this task.
        loss: A name, or a table of a name and options, such as `{ name = "focal", gamma = 2.0 }`.
            `"cross_entropy"` teaches probabilities; `"focal"` too, once calibrated, and looks at
            hard candidates; `"jrc"` teaches probabilities and the order of a request's candidates.
            `"softmax"`, `"bpr"` and `"list_mle"` teach their order only: choose one where the
            output is a ranked list and nothing needs a probability.
        kind: The kind of the label.
    """

    name: str
    label: str | None = None
    weight: float = 1.0
    mask: str | None = None
    loss: LossName | LossOptions = "cross_entropy"
    kind: Literal["binary"] = "binary"

    def __post_init__(self) -> None:
        options = loss_options(self.loss, f"Task {self.name!r}: unknown `loss`")
        object.__setattr__(self, "loss", self.loss if isinstance(self.loss, str) else options)
        with errors_of(f"Task {self.name!r}"):
            require_number("weight", self.weight, above=0)

    @property
    def label_column(self) -> str:
        return self.label or self.name

    @property
    def has_probabilities(self) -> bool:
        """Returns whether the scores are probabilities, and not only an order of candidates."""
        return self.loss_options.has_probabilities

    @property
    def loss_options(self) -> LossOptions:
        """Returns the loss with its options, where `loss` may be a name."""
        return loss_options(self.loss)


@dataclass(frozen=True)
class Schema:
    """Features and tasks, checked for consistency.

    >>> schema = Schema(
    ...     features=(
    ...         Categorical("item_id", dtype="int64"),
    ...         Sequence("clicked_items", shares="item_id", dtype="int64"),
    ...     ),
    ...     tasks=(Task("click"),),
    ... )
    >>> schema.table_owner("clicked_items")
    'item_id'
    """

    features: tuple[Feature, ...]
    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "tasks", tuple(self.tasks))
        if not self.features:
            raise ValueError("`features` must name at least one feature. Received: none")
        require_different("features", [feature.name for feature in self.features])
        require_different("tasks", [task.name for task in self.tasks])
        for feature in self.features:
            if isinstance(feature, Sequence) and feature.shares is not None:
                self._check_shares(feature)
        for name, sequences in self.histories.items():
            ages = [sequence.name for sequence in sequences if is_age(sequence)]
            if len(ages) > 1 or len(ages) == len(sequences):
                raise ValueError(
                    f"The history {name!r} must have a sequence of ids, and at most one with the "
                    f"transform 'age'. Received with 'age': {ages} of "
                    f"{[sequence.name for sequence in sequences]}"
                )
            lengths = {sequence.name: sequence.max_length for sequence in sequences}
            if len(set(lengths.values())) > 1:
                raise ValueError(
                    f"Sequences of one history are aligned and must have the same `max_length`. "
                    f"Received for history {name!r}: {lengths}"
                )

    def _check_shares(self, feature: Sequence) -> None:
        owners = {f.name: f for f in self.features if isinstance(f, Categorical)}
        owner = owners.get(feature.shares or "")
        if owner is None:
            raise ValueError(
                f"Sequence {feature.name!r}: `shares` must name a categorical feature, one of "
                f"{sorted(owners)}. Received: shares={feature.shares!r}"
            )
        if owner.dtype != feature.dtype:
            raise ValueError(
                f"Sequence {feature.name!r} shares the table of {owner.name!r} and must have its "
                f"dtype {owner.dtype!r}. Received: dtype={feature.dtype!r}"
            )
        for name in ("transform", "width", "table_width", "size"):
            not_given = DEFAULT if name == "transform" else None
            value, shared = getattr(feature, name), getattr(owner, name)
            if value not in (not_given, shared):
                raise ValueError(
                    f"Sequence {feature.name!r} shares the table of {owner.name!r}, whose `{name}` "
                    f"is {shared!r}. Received: {name}={value!r}. Remove the sequence's `{name}`, "
                    f"or give {owner.name!r} the same"
                )

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise KeyError(f"No feature is named {name!r}. Features: {[f.name for f in self.features]}")

    def table_owner(self, name: str) -> str:
        """Returns the name of the feature that owns the table and transform of `name`."""
        feature = self[name]
        return (feature.shares or name) if isinstance(feature, Sequence) else name

    @property
    def histories(self) -> Mapping[str, tuple[Sequence, ...]]:
        """Returns the aligned sequences by the name of their history."""
        grouped: dict[str, list[Sequence]] = {}
        for feature in self.features:
            if isinstance(feature, Sequence):
                grouped.setdefault(feature.history, []).append(feature)
        return types.MappingProxyType({name: tuple(group) for name, group in grouped.items()})

    def with_sizes(self, sizes: Mapping[str, int]) -> Schema:
        """Returns the schema with the table sizes of `sizes`."""
        features = tuple(
            dataclasses.replace(feature, size=sizes[self.table_owner(feature.name)])
            if not isinstance(feature, Numeric) and self.table_owner(feature.name) in sizes
            else feature
            for feature in self.features
        )
        return Schema(features, self.tasks)

    def with_boundaries(self, boundaries: Mapping[str, tuple[float, ...] | None]) -> Schema:
        """Returns the schema with the boundaries of numeric features."""
        features = tuple(
            dataclasses.replace(feature, boundaries=boundaries[feature.name])
            if isinstance(feature, Numeric) and feature.name in boundaries
            else feature
            for feature in self.features
        )
        return Schema(features, self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; see `from_dict`."""
        features = [dataclasses.asdict(feature) for feature in self.features]
        return {  # without a `column` that is the name, as older versions wrote it
            "features": [{k: of[k] for k in of if k != "column" or of[k]} for of in features],
            "tasks": [dataclasses.asdict(task) for task in self.tasks],
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> Schema:
        """Returns the schema for the result of `to_dict`."""
        return cls(
            features=tuple(_feature_from_dict(feature) for feature in config["features"]),
            tasks=tuple(Task(**task) for task in config["tasks"]),
        )


_FEATURES: dict[str, type[Feature]] = {
    "categorical": Categorical,
    "numeric": Numeric,
    "sequence": Sequence,
}
_DTYPES: dict[str, tuple[str, ...]] = {
    "categorical": get_args(RawType),
    "numeric": ("float32",),
    "sequence": get_args(RawType),
}
_ID_TRANSFORMS: dict[str, type[IdTransform]] = {**BUILT_IN, "own": OwnTransform}


def _feature_from_dict(config: Mapping[str, Any]) -> Feature:
    fields = dict(config)
    if fields["kind"] != "numeric":
        fields["transform"] = _ID_TRANSFORMS[fields["transform"]["kind"]](**fields["transform"])
    return _FEATURES[fields["kind"]](**fields)


def _check_feature(feature: Feature) -> None:
    if feature.name == CANDIDATE_MASK:
        raise ValueError(
            f"`name` must not be {CANDIDATE_MASK!r}, which is the model's input for padding. "
            "Rename the feature"
        )
    for name, valid in (("side", get_args(Side)), ("dtype", _DTYPES[feature.kind])):
        if getattr(feature, name) not in valid:
            raise ValueError(
                f"Feature {feature.name!r}: unknown `{name}`. "
                + unknown_name(getattr(feature, name), valid)
            )
    with errors_of(f"Feature {feature.name!r}"):
        for name in ("width", "max_length", "table_width", "size"):
            if getattr(feature, name, None) is not None:
                require_positive(name, getattr(feature, name))


def _check_id_feature(feature: Categorical | Sequence) -> None:
    _check_feature(feature)
    with errors_of(f"Feature {feature.name!r}"):
        check_id_transform(feature)
