"""A batch is computed: for those that still wait, and so that nobody suffers for another."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from serving.batching.jobs import Job
from serving.common.errors import Internal, ServingError

_LOGGER = logging.getLogger(__name__)


def compute(batch: Sequence[Job]) -> None:
    """Gives each job its results or its error; raises nothing."""
    started = time.perf_counter()
    alive = []
    for job in batch:
        job.call.queue_seconds += started - job.queued
        try:
            job.call.require_caller()
            alive.append(job)
        except ServingError as error:
            job.error = error
        except BaseException as error:
            _fail([job], error)
    if alive:
        _compute(alive)


def _compute(batch: Sequence[Job]) -> None:
    started = time.perf_counter()
    try:
        batch[0].run(batch)
    except ServingError as error:
        if len(batch) > 1:  # one of them is to blame: the others shall not suffer
            for job in batch:
                _compute([job])
            return
        batch[0].error = error
    except BaseException as error:  # even `SystemExit`: others wait for this thread
        _fail(batch, error)
    seconds, rows = time.perf_counter() - started, sum(job.size for job in batch)
    for job in batch:
        job.call.runtime_seconds += seconds
        job.call.batch_rows = rows


def _fail(batch: Sequence[Job], error: BaseException) -> None:
    _LOGGER.error("A batch of %d requests failed", len(batch), exc_info=error)
    for job in batch:
        job.error = Internal(f"{type(error).__name__}: {error}")
