"""Gives back what a version held."""

from __future__ import annotations

import gc
import time
import weakref

from serving.models.model import Model

_MOMENTS = 10
_MOMENT_SECONDS = 0.01


def free(models: list[Model]) -> None:
    """Closes the one model of the list, which nobody uses any more, and takes it out.

    A loaded SavedModel refers to itself, so it needs a collection, which holds up every
    request; a server has hidden what it imported from it (`hide_imports`), and not its models:
    what is hidden is never collected.
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
