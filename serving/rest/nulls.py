"""Null in JSON: a missing value; in place of a list, a list of missing values."""

from __future__ import annotations

import math
from typing import Any

from serving.common.errors import InvalidArgument
from serving.encoding.codec import MAX_RANK
from serving.encoding.features import TensorSpec
from serving.encoding.rank_columns import MAX_PADDED_ELEMENTS


def has_null(value: Any, axes: int = MAX_RANK) -> bool:
    """Returns whether nested lists, `axes` deep at most, contain a null; objects are skipped."""
    if not isinstance(value, list) or not axes:
        return value is None
    if None in value:
        return True
    is_nested = bool(value) and isinstance(value[0], list)
    return is_nested and any(has_null(one, axes - 1) for one in value)


def filled_up(name: str, value: Any, spec: TensorSpec) -> Any:
    """Returns the value with a list of nulls for each null in place of a list.

    These lists are as long as the others at their level.

    Args:
        name: Name of the input, for errors.
        value: Nested lists.
        spec: The input's dtype and shape.

    Raises:
        InvalidArgument: All of the value is null, or the lists would be too long in all.
    """
    if value is None and spec.shape:
        raise InvalidArgument(
            f"All of {name!r} is null. Expected a list with null for each row that has no value."
        )
    lists, lengths, nulls = [value], [], 0
    for size in (spec.shape or ())[1:]:
        entries = [one for part in lists for one in part]
        lists = [one for one in entries if isinstance(one, list)]
        nulls = max(nulls, entries.count(None))
        lengths.append(max(map(len, lists), default=1) if size is None else size)
    if nulls * math.prod(lengths) > MAX_PADDED_ELEMENTS:
        raise InvalidArgument(
            f"{nulls} nulls in {name!r} in place of lists of {lengths[-1]} values are too many to "
            f"be filled up ({MAX_PADDED_ELEMENTS} in all). Send fewer rows at once."
        )
    return _filled(value, lengths)


def _filled(value: Any, lengths: list[int]) -> Any:
    if not lengths or not isinstance(value, list):
        return value
    nulls: Any = None
    for length in reversed(lengths):
        nulls = [nulls] * length
    return [nulls if one is None else _filled(one, lengths[1:]) for one in value]
