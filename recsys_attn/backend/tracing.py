"""Values for the calls inside a `with` block, and for no function that outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

import keras

_BACKEND = keras.backend.backend()
if _BACKEND == "tensorflow":
    import tensorflow as tf
elif _BACKEND == "jax":
    import jax

Value = TypeVar("Value")


def is_traced() -> bool:
    """Returns whether Python runs here once for many calls: `tf.function`, `predict`, `jax.jit`."""
    if _BACKEND == "tensorflow":
        return not tf.executing_eagerly()
    if _BACKEND == "jax":
        return isinstance(jax.numpy.zeros(()), jax.core.Tracer)
    return False


@dataclass
class ScopeBlock(Generic[Value]):
    """One `with` block of a `CallScope`.

    Attributes:
        value: The value inside.
        traced: Whether the block stands in a traced function, and so belongs to its calls.
        missed: Whether the last reader stood in a function that is traced inside the block. A layer
            without `build` is traced, for its shapes, before its first call; so an earlier reader
            does not count.
    """

    value: Value
    traced: bool
    missed: bool = False


class CallScope(Generic[Value]):
    """A value for the calls inside a `with` block, as Python runs them.

    A function that is traced inside the block does not get it: it would keep the value after the
    block. One with the block in its own body does.

    Args:
        name: The name of the value.
        default: The value outside of all blocks.

    Example:

    >>> from recsys_attn.backend.tracing import CallScope
    >>> FACTOR = CallScope("factor", 1)
    >>> with FACTOR.of(3):
    ...     print(FACTOR.get())
    3
    """

    def __init__(self, name: str, default: Value) -> None:
        self._default = default
        self._block: ContextVar[ScopeBlock[Value] | None] = ContextVar(name, default=None)

    @contextmanager
    def of(self, value: Value) -> Iterator[ScopeBlock[Value]]:
        """Gives the calls inside a value."""
        block = ScopeBlock(value, is_traced())
        token = self._block.set(block)
        try:
            yield block
        finally:
            self._block.reset(token)

    def get(self) -> Value:
        """Returns the value of the innermost block around this call."""
        block = self._block.get()
        if block is None:
            return self._default
        block.missed = not block.traced and is_traced()
        return self._default if block.missed else block.value
