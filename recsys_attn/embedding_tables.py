"""The plan of `FeatureEmbedding`: the rows of each feature in its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from keras import ops

from recsys_attn.number_encodings.fields import number_groups
from recsys_attn.schema import Categorical, Feature, Numeric, Schema, Sequence, Side, is_age
from recsys_attn.tensors import Tensor


@dataclass(frozen=True)
class Table:
    """The table of all features of the same widths: one variable with their rows in sequence.

    Attributes:
        width: Embedding width.
        table_width: Width of the rows, if a matrix of each feature projects them to `width`.
        rows: Number of rows.
    """

    width: int
    table_width: int | None
    rows: int
    offsets: Mapping[str, int]  # by feature name; those that share a table share the offset
    sizes: Mapping[str, int]  # rows of each feature's part
    singles: Mapping[Side, tuple[str, ...]]
    bags: Mapping[Side, tuple[str, ...]]  # multi-valued
    numerics: Mapping[Side, tuple[str, ...]]  # those of one encoding together
    sequences: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its weights."""
        return f"table_{self._widths}"

    @property
    def projection(self) -> str:
        """The name of the weights of its projections."""
        return f"projection_{self._widths}"

    @property
    def _widths(self) -> str:
        return f"{self.table_width}_to_{self.width}" if self.table_width else str(self.width)

    @property
    def parts(self) -> tuple[str, ...]:
        """A feature of each part, in the order of their rows."""
        return tuple({offset: name for name, offset in self.offsets.items()}.values())

    def fields(self, side: Side) -> tuple[str, ...]:
        """Returns the names of a side's fields in the order of their block."""
        return (*self.singles[side], *self.bags[side], *self.numerics[side])

    def places(self, names: Iterable[str]) -> list[int]:
        """Returns the place of each feature's part among the parts."""
        begins = [self.offsets[part] for part in self.parts]
        return [begins.index(self.offsets[name]) for name in names]


def width_of(schema: Schema, name: str, default_width: int) -> int:
    """Returns the embedding width of a feature: that of its table's owner."""
    return schema[schema.table_owner(name)].width or default_width


def require_one_width(schema: Schema, default_width: int) -> None:
    """Raises unless all features have the model's width."""
    for feature in schema.features:
        width = width_of(schema, feature.name, default_width)
        if width != default_width:
            raise ValueError(
                "Attention between fields needs every field to have the model's width, "
                f"{default_width}. Received: width={width} for the feature {feature.name!r}. "
                "Remove the feature's `width`"
            )


def plan_tables(schema: Schema, default_width: int) -> tuple[Table, ...]:
    """Returns a table for each width and width of the rows, in increasing order.

    Raises:
        ValueError: A feature has no `size`, or its `table_width` is not less than its width.
    """
    by_width: dict[tuple[int, int], list[Feature]] = {}
    for feature in schema.features:
        width = width_of(schema, feature.name, default_width)
        narrow = getattr(schema[schema.table_owner(feature.name)], "table_width", None) or 0
        if narrow >= width:
            raise ValueError(
                f"Feature {feature.name!r}: `table_width` must be less than the embedding width, "
                f"{width}. Received: table_width={narrow}. Remove it, or give a larger `width`"
            )
        by_width.setdefault((width, narrow), []).append(feature)
    return tuple(
        _plan_table(schema, width, narrow or None, by_width[width, narrow])
        for width, narrow in sorted(by_width)
    )


def _plan_table(
    schema: Schema, width: int, table_width: int | None, features: list[Feature]
) -> Table:
    offsets: dict[str, int] = {}
    sizes: dict[str, int] = {}
    rows = 0
    for feature in features:
        owner = schema.table_owner(feature.name)
        if isinstance(feature, Numeric) or is_age(feature):
            continue
        if owner not in offsets:
            size = getattr(schema[owner], "size", None)  # whichever of them comes first
            if size is None:
                raise ValueError(
                    f"Feature {owner!r} has no `size`: the number of rows of its table is "
                    "known after fitting. Give `size`, or use `schema.with_sizes(...)`"
                )
            offsets[owner], sizes[owner] = rows, size
            rows += size
        offsets[feature.name], sizes[feature.name] = offsets[owner], sizes[owner]

    def names(kind: type, side: Side, multivalued: bool = False) -> tuple[str, ...]:
        return tuple(
            f.name
            for f in features
            if isinstance(f, kind)
            and not is_age(f)
            and f.side == side
            and getattr(f, "multivalued", False) == multivalued
        )

    def numbers(side: Side) -> tuple[str, ...]:
        numerics = [f for f in features if isinstance(f, Numeric) and f.side == side]
        return tuple(f.name for group in number_groups(numerics) for f in group)

    sides: tuple[Side, Side] = ("context", "candidate")
    return Table(
        width=width,
        table_width=table_width,
        rows=rows,
        offsets=offsets,
        sizes=sizes,
        singles={side: names(Categorical, side) for side in sides},
        bags={side: names(Categorical, side, multivalued=True) for side in sides},
        numerics={side: numbers(side) for side in sides},
        sequences=names(Sequence, "context"),
    )


def projected(rows: Tensor, projections: list[Tensor]) -> Tensor:
    """Projects the rows `(..., F, e)` of F features, or those `(..., S, e)` of one."""
    if len(projections) == 1:
        return ops.matmul(rows, projections[0])
    return ops.einsum("...fe,few->...fw", rows, ops.stack(projections))


def cut(x: Tensor, lengths: list[Any], axis: int) -> list[Tensor]:
    """Splits `x` into pieces along its last or last but one axis."""
    if len(lengths) == 1:
        return [x]
    ends = list(accumulate(lengths))
    if all(isinstance(length, int) for length in lengths):
        # One copy in the backward pass; slices would make a full-size tensor each.
        return ops.split(x, ends[:-1], axis=axis)
    rest = (slice(None),) * (-1 - axis)
    return [x[(..., slice(e - n, e), *rest)] for n, e in zip(lengths, ends, strict=True)]
