"""Records the factors that layers multiply whole fields by, for explanations.

A layer with such factors has the attribute `scales_fields`, and calls `record_factors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from recsys_attn.tensors import Tensor

_FACTORS: ContextVar[list[Tensor] | None] = ContextVar("factors of fields", default=None)


def record_factors(factors: Tensor) -> None:
    """Adds the factors of a call, (..., F), to the list of the innermost `recorded_factors`."""
    record = _FACTORS.get()
    if record is not None:
        record.append(factors)


@contextmanager
def recorded_factors() -> Iterator[list[Tensor]]:
    """Yields a list that gets the factors of every call inside."""
    record: list[Tensor] = []
    token = _FACTORS.set(record)
    try:
        yield record
    finally:
        _FACTORS.reset(token)
