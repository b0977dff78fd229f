"""The layout of a batch: few arrays (blocks) in which every feature has columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recsys_attn.schema import CANDIDATE_MASK, Numeric, Schema, Side, is_listed

Arrays = dict[str, np.ndarray]
LABELS = "labels"
# Rows of the item table: of the candidate, and of the events of the context. No model reads them.
ITEM_ROWS, SEEN_ROWS = "candidate_row_ids", "context_row_ids"


@dataclass(frozen=True)
class Layout:
    """Maps each feature and task to a block and columns.

    One gather moves a whole block, and it becomes one tensor. The blocks are `context_ids`,
    `candidate_ids` (int32), `context_numbers`, `candidate_numbers` (float32; NaN is missing) and
    `labels` (float32; NaN is unknown); blocks without columns are left out. Where items are drawn,
    `candidate_row_ids` and `context_row_ids` have rows of the item table.

    Attributes:
        places: Block and columns of each feature; features of one column come first.
        single: How many features of one column a block has.
        widths: Columns of each block.
        tasks: Names of the labels' columns.
    """

    places: Mapping[str, tuple[str, int | slice]]
    single: Mapping[str, int]
    widths: Mapping[str, int]
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, labelled: bool = True) -> Layout:
        """The layout of a schema's features and, where `labelled`, of its tasks."""
        places: dict[str, tuple[str, int | slice]] = {}
        single: dict[str, int] = {}
        widths: dict[str, int] = {}
        for feature in sorted(schema.features, key=is_listed):
            block = f"{feature.side}_{'numbers' if isinstance(feature, Numeric) else 'ids'}"
            start = widths.get(block, 0)
            length = feature.max_length if is_listed(feature) else 1
            place = slice(start, start + length) if is_listed(feature) else start
            places[feature.name] = block, place
            widths[block] = start + length
            single[block] = single.get(block, 0) + (not is_listed(feature))
        tasks = tuple(task.name for task in schema.tasks) if labelled else ()
        return cls(places, single, widths | ({LABELS: len(tasks)} if tasks else {}), tasks)

    def with_rows(self, events: int) -> Layout:
        """The layout with blocks for rows of the item table.

        Args:
            events: Events of a request's histories, of which rows are kept.
        """
        added = {ITEM_ROWS: 1, **({SEEN_ROWS: events} if events else {})}
        return replace(self, widths={**self.widths, **added})

    def empty(self, rows: int) -> Arrays:
        """Uninitialised blocks `(rows, columns)`."""
        return {
            block: np.empty((rows, width), "int32" if block.endswith("ids") else "float32")
            for block, width in self.widths.items()
        }

    def blocks_of(self, side: Side) -> list[str]:
        """Blocks with a row per request (context) or per candidate (labels included)."""
        return [b for b in self.widths if b.startswith("context") == (side == "context")]

    def inputs(self, blocks: Mapping[str, Any]) -> dict[str, Any]:
        """A model's inputs by name: views of the blocks' last axis, arrays or tensors."""
        inputs = {name: blocks[block][..., place] for name, (block, place) in self.places.items()}
        return {**inputs, CANDIDATE_MASK: blocks[CANDIDATE_MASK]}

    def labels(self, blocks: Mapping[str, Any]) -> dict[str, Any]:
        """Labels by task; NaN is unknown."""
        return {task: blocks[LABELS][..., i] for i, task in enumerate(self.tasks)}
