"""Gives back what a version held."""

from __future__ import annotations

import gc
import time
import weakref

from serving.model import Model

_MOMENTS = 10
_MOMENT_SECONDS = 0.01


def free(models: list[Model]) -> None:
    """Closes the one model of the list, which nobody uses any more, and takes it out.

    A loaded SavedModel refers to itself, so it needs a collection, which holds up every
    request. With TensorFlow imported it looks at 430,000 objects, 0.6 s; a server therefore
    puts what it has imported out of the collector's sight before it loads (`gc.freeze`), and
    one with a small model takes 1 ms. Models are not frozen: what is, is never collected.
    """
    model = models.pop()
    close = getattr(model, "close", None)
    if close is not None:
        close()
    dying = weakref.ref(model)
    del model, close
    # The request that ended last may hold the model until its thread has gone on.
    for _ in range(_MOMENTS):
        if dying() is None:
            break
        time.sleep(_MOMENT_SECONDS)
    gc.collect()
