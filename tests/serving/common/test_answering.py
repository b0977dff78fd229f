"""Coroutines that wait for no batch."""

from __future__ import annotations

import pytest

from serving.batching.jobs import Job
from serving.common.answering import finished
from serving.common.call import Call
from serving.common.errors import NotFound
from serving.config.batching import BatchingParameters


async def _inner(number: int) -> int:
    if number < 0:
        raise NotFound("negative")
    return 2 * number


async def _outer(number: int) -> int:
    return 1 + await _inner(number)


def test_it_gives_what_the_coroutine_gives() -> None:
    assert finished(_outer(3)) == 7
    with pytest.raises(NotFound, match="negative"):
        finished(_outer(-1), Call("Predict"))


def test_one_that_waits_for_a_batch_needs_a_scheduler() -> None:
    call = Call("Predict")

    async def wait() -> None:
        await Job("lane", "queue", BatchingParameters(), 1, call, lambda batch: None, None)

    with pytest.raises(RuntimeError, match=r"the scheduler must run it \(`Scheduler.answer`\)"):
        finished(wait(), call)
