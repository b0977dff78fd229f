"""The feed of the training: Parquet in, batches of requests out.

The names below are imported at their first use, as they need TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recsys_attn.lazy import lazy_names

if TYPE_CHECKING:
    from pipelines.feed.batch import (
        BATCH_REQUESTS,
        LENGTHS,
        PADDED_CANDIDATES,
        TRAINING_CANDIDATES,
        Batch,
    )
    from pipelines.feed.batch_layout import Arrays, Layout
    from pipelines.feed.catalogue import ItemCatalogue
    from pipelines.feed.feed import Feed
    from pipelines.feed.negatives import Negatives
    from pipelines.feed.order import Position

__all__ = [
    "BATCH_REQUESTS",
    "LENGTHS",
    "PADDED_CANDIDATES",
    "TRAINING_CANDIDATES",
    "Arrays",
    "Batch",
    "Feed",
    "ItemCatalogue",
    "Layout",
    "Negatives",
    "Position",
]

_MODULES = {
    "Arrays": "batch_layout",
    "ItemCatalogue": "catalogue",
    "Feed": "feed",
    "Layout": "batch_layout",
    "Negatives": "negatives",
    "Position": "order",
}

__getattr__, __dir__ = lazy_names(__name__, {name: _MODULES.get(name, "batch") for name in __all__})
