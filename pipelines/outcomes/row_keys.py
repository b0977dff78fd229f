"""The columns that name the row of an outcome."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipelines.common.errors import PipelineError
from pipelines.outcomes.layout import Layout
from serving.state.definitions.definition import StateDefinition
from serving.state.errors import did_you_mean


def choose_keys(
    by: Sequence[str],
    columns: Collection[str],
    layout: Layout,
    item: str | None,
    definition: StateDefinition | None,
) -> tuple[str, ...]:
    """The columns that both sides have and that name a row.

    Args:
        by: Those that the user has named. Empty: the request id and the item's key if outcomes have
            the request id, else the keys of the user and the item.
        columns: The columns of outcomes.
        layout: The columns of rows.
        item: The key of the table of items, if there is one.
        definition: The state of the run, if there is one.

    Raises:
        PipelineError: A column is none of rows, or none can be chosen.
    """
    known = layout.key_schema.names
    for name in by:
        if name not in known:
            raise PipelineError(
                f"--by: the rows have no column {name!r} that names a row."
                f"{did_you_mean(name, known)} Expected one of: {', '.join(known)}."
            )
    if by:
        return tuple(by)
    keys = frozenset() if definition is None else definition.keys
    sides = {feature.name: feature.side for feature in layout.features}
    of_candidates = {name for name, side in sides.items() if side == "candidate"}
    candidate = [item] if item else sorted(keys & of_candidates)
    statics = definition.static if definition else ()
    context = [static.key for static in statics if static.of == "user"]
    context = context or sorted(keys - {*candidate} - of_candidates)
    first = [layout.request] if layout.request in columns else context
    if len(first) != 1 or len(candidate) != 1 or not {*first, *candidate} <= {*known}:
        raise PipelineError(
            "--by: name the columns of an outcome that say which row it belongs to, such as --by "
            f"{layout.request} --by item_id: the run does not say which key of a user and which of "
            f"an item names it. Columns of rows: {', '.join(known)}."
        )
    return (first[0], candidate[0])
