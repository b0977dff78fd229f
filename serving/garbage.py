"""Python's garbage, collected at chosen times: a collection holds up every request."""

from __future__ import annotations

import gc


def collect_garbage() -> None:
    """Collects what is referred to by itself alone, in a server.

    A server puts what it has imported out of the collector's sight (`gc.freeze`). Elsewhere a
    collection looks at all that TensorFlow is made of, for half a second, and comes by itself.
    """
    if gc.get_freeze_count():
        gc.collect()
