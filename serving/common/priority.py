"""The priority of threads: work beside requests has a lower one, so that requests stay fast."""

from __future__ import annotations

import os
import sys
import threading

_STEPS = 10  # of Linux' nice value: a tenth of the weight, so that the work still ends under load
_THREAD = threading.local()


def lower_priority() -> None:
    """Lowers the priority of this thread, and of those that it starts, permanently.

    A process may not raise it again, so call it in a thread that does nothing else. A thread of
    low priority that holds Python's lock stops all others: give it work outside of Python.
    """
    _THREAD.is_low = True
    if sys.platform == "linux":  # elsewhere threads have no priority of their own
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread) + _STEPS
        os.setpriority(os.PRIO_PROCESS, thread, nice)  # the system keeps it in its range


def has_low_priority() -> bool:
    """Returns whether this thread has lowered its priority."""
    return getattr(_THREAD, "is_low", False)
