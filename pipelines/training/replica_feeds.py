"""The feeds of a worker's replicas."""

from __future__ import annotations

from dataclasses import replace

from pipelines.experiment.loop_options import LoopOptions
from pipelines.feed import Feed
from pipelines.training.workers import Workers


def replica_feeds(feed: Feed, options: LoopOptions, seed: int, workers: Workers) -> list[Feed]:
    """Returns one feed for each replica of this worker, with its shards of the rows.

    Args:
        feed: All train rows.
        options: The options of the training.
        seed: Seed of the order of rows.
        workers: The workers that train together.
    """
    shards = options.shards or workers.replicas
    requests = int(feed.counts.requests.sum())
    shared = replace(
        feed,
        batch_size=options.batch_of(requests // shards),
        seed=seed,
        shuffle_rows=options.shuffle_rows,
        shards=shards,
        shard_indices=tuple(range(shards)),
    )
    return [replace(shared, shard_indices=indices) for indices in workers.shards(shards)]
