"""The encoded item table, and the rows of requests' items in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pipelines.features import FittedFeatures
from pipelines.features.lists import flatten_list, pad_last
from pipelines.feed.batch_layout import Arrays, Layout
from pipelines.items import ItemTable
from pipelines.items.feature_table import ABSENT
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.schema import Schema, Sequence


@dataclass(frozen=True)
class ItemCatalogue:
    """All items as candidates.

    Args:
        items: The item table.
        fitted: Schema and transforms; every feature of a candidate is in the item table.
        unseen: Whether to find the items of a request's histories.
        whole: The schema that has the histories, also those that the model does not read. None:
            that of `fitted`.
    """

    items: ItemTable
    fitted: FittedFeatures
    unseen: bool = True
    whole: Schema | None = None

    @cached_property
    def blocks(self) -> Arrays:
        """The candidates' blocks with a row per item, without labels."""
        layout = Layout.of(self.fitted.schema, labelled=False)
        blocks = layout.empty(len(self.items))
        for name, values in self.fitted.encoded_items().items():
            block, place = layout.places[name]
            blocks[block][:, place] = values
        return {name: blocks[name] for name in layout.blocks_of("candidate")}

    @cached_property
    def histories(self) -> tuple[Sequence, ...]:
        """The columns of sequences whose events are items of the table."""
        if not self.unseen:
            return ()
        features = raw_columns(self.whole or self.fitted.schema).features
        return tuple(f for f in features if isinstance(f, Sequence) and f.shares == self.items.key)

    @property
    def events(self) -> int:
        """Number of events of a request, padding included."""
        return sum(history.max_length for history in self.histories)

    def seen(self, context: pa.Table) -> np.ndarray:
        """Rows of the item table of each request's events `(B, events)`; `ABSENT` is padding."""
        rows = []
        for history in self.histories:
            values, offsets = flatten_list(context[history.name].combine_chunks())
            # Row numbers from 1, as the padding is 0.
            rows.append(pad_last(self.items.rows(values) + 1, offsets, history.max_length) - 1)
        return np.concatenate(rows, axis=1) if rows else np.full((len(context), 0), ABSENT)
