"""The priority of work beside requests."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from serving.common.background import SerialWorker
from serving.common.priority import has_low_priority


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_a_worker_lowers_its_own_priority_alone() -> None:
    def found() -> tuple[int, bool]:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), has_low_priority()

    before = found()
    for is_low in (False, True):
        worker = SerialWorker("worker", has_low_priority=is_low)
        nice, says = worker.run(found)
        worker.stop()
        assert says is is_low
        assert (nice > before[0]) is is_low
    assert found() == before
