"""The feed of the training: Parquet in, batches of requests out."""

from pipelines.feed.batch import (
    BATCH_REQUESTS,
    LENGTHS,
    PADDED_CANDIDATES,
    TRAINING_CANDIDATES,
    Batch,
)
from pipelines.feed.batch_layout import Arrays, Layout
from pipelines.feed.feed import Feed
from pipelines.feed.order import Position

__all__ = [
    "BATCH_REQUESTS",
    "LENGTHS",
    "PADDED_CANDIDATES",
    "TRAINING_CANDIDATES",
    "Arrays",
    "Batch",
    "Feed",
    "Layout",
    "Position",
]
