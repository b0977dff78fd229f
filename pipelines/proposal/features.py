"""Features for the columns of a log, and the reasons to leave others out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.experiment.names import check_feature_names
from pipelines.proposal.looked_at import Column, lists_ids_of
from pipelines.proposal.outcomes import outcome_reason
from pipelines.proposal.roles import Roles, is_outcome, names_request, split
from serving.state.columns.arrow_kinds import is_list, is_number, is_text
from serving.state.columns.times import ticks_per_second

_CODES = ("id", "idx", "code", "type", "category", "zip", "hash", "class")  # last words of ids
_DIFFERENT = 0.9  # share of the rows with a value of their own
_TAIL = 3.0  # 99% quantile by median of numbers that `log1p` helps


class Proposed(NamedTuple):
    """A proposal for one column.

    Attributes:
        column: The column.
        feature: Its entry of `[[features]]`; None: it is left out.
        reason: A comment.
    """

    column: Column
    feature: dict[str, Any] | None
    reason: str


def propose_features(columns: Sequence[Column], roles: Roles) -> list[Proposed]:
    """A proposal for each column that has no other role."""
    others = {c.name for c in (roles.time, roles.request, *roles.labels) if c is not None}
    proposed: list[Proposed] = []
    for column in columns:
        if column.name not in others:
            used = [p.column.name for p in proposed if p.feature is not None]
            against = _unfit(column, used) or _outcome(column, roles)
            feature, reason = (None, against) if against else _feature(column, roles)
            proposed.append(Proposed(column, feature, reason))
    return proposed


def _unfit(column: Column, used: Sequence[str]) -> str:
    """The reason why a column cannot be a feature; empty if it can."""
    try:
        check_feature_names([*used, column.name])
    except ValueError:
        return "no input can have its name: rename it (letters, digits, _; not by case alone)"
    if column.values.null_count == len(column.values):
        return "it has no values"
    if ticks_per_second(column.kind) is not None and (column.is_time or not is_text(column.kind)):
        return "it is a time; write it as a number, such as an age, if it matters"
    if is_number(column.kind) and not column.is_finite:
        return "it has NaN or infinity; write null where a value is missing"
    if pa.types.is_nested(column.kind) and not is_list(column.kind):
        return "it holds tables"
    if not column.is_single and not is_list(column.kind):
        return f"no feature holds {column.kind}"
    if names_request(column):
        return "by its name an id of requests, whose rows must follow each other: --request"
    if column.distinct == 1:
        return "it has one value"
    return ""


def _outcome(column: Column, roles: Roles) -> str:
    """The reason to believe that a column is known only afterwards; empty if there is none."""
    if is_list(column.kind) or column in (roles.user, roles.item):
        return ""
    if is_outcome(column):
        return "by its name an outcome: a task, or a feature if it is known before"
    for label in roles.labels:
        reason = outcome_reason(column.values, pa.chunked_array([label.values]), label.name)
        if reason:
            return f"known only afterwards? {reason}"
    return ""


def _feature(column: Column, roles: Roles) -> tuple[dict[str, Any] | None, str]:
    """The entry of a column and a comment."""
    side = {"side": "context"} if _is_of_context(column, roles) else {}
    head = {"kind": "categorical", "name": column.name, **side}
    number = f"{column.distinct:,} values"
    if is_list(column.kind):
        return _listed(column, roles, head)
    has_role = column in (roles.user, roles.item)
    is_own = not has_role and column.distinct > _DIFFERENT * len(column.values)
    if not is_number(column.kind) or pa.types.is_uint64(column.kind):
        if is_own:
            return None, "nearly each row has a text of its own"
        return head, f"{number}: {column.shown}"
    is_id = has_role or split(column.name)[-1] in _CODES
    if is_id and column.is_whole and not column.is_flag:
        if is_own:
            return None, "nearly each row has an id of its own"
        return {**head, "dtype": "int64"}, f"{number}: {column.shown}"
    low, middle, high, top = np.quantile(column.numbers, [0, 0.5, 0.99, 1])
    transform: dict[str, Any] = {}
    if low >= 0 and middle > 0 and high > _TAIL * middle:
        transform = {"transform": ["log1p", "standardise"]}
    return {**head, "kind": "numeric", **transform}, f"{low:.4g} to {top:.4g}"


def _listed(
    column: Column, roles: Roles, head: dict[str, Any]
) -> tuple[dict[str, Any] | None, str]:
    """The entry of a column of lists: a history of items, or a bag of values."""
    if roles.item is not None and lists_ids_of(column, roles.item):
        sequence = {"kind": "sequence", "name": column.name, "history": column.name}
        if roles.request is not None and not column.by(roles.request):
            return None, "its items differ within a request, and a history is of the user"
        return {**sequence, "shares": roles.item.name}, "items, the latest one last"
    kind = column.kind.value_type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        return None, "no feature is a list of fractions or of lists"
    dtype = {"dtype": "int64"} if is_number(kind) else {}
    return {**head, **dtype, "multivalued": True}, f"such as {column.shown}"


def _is_of_context(column: Column, roles: Roles) -> bool:
    """Whether a column is of the user and the moment, and not of the candidate."""
    if column is roles.user:
        return True
    if column is roles.item or (roles.item is not None and column.by(roles.item)):
        return False
    key = roles.request or roles.user
    return key is not None and column.by(key)
