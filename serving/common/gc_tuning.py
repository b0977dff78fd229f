"""Python's garbage, collected at chosen times: a collection holds up every request."""

from __future__ import annotations

import gc
import threading

_IS_HIDDEN = threading.Event()  # to ask the collector takes as long as a collection


def hide_imports() -> None:
    """Takes what was imported, which lives as long as the process, out of the collector's sight.

    Collections after a change of versions then look at the models alone: TensorFlow is 430,000
    objects, which take half a second.
    """
    gc.freeze()
    _IS_HIDDEN.set()


def collect_garbage() -> None:
    """Collects what only refers to itself, where imports are hidden; else it comes by itself."""
    if _IS_HIDDEN.is_set():
        gc.collect()
