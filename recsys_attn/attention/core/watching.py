"""Sight of the heads of a model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from recsys_attn.attention.core.masks import Masks
from recsys_attn.tensors import Tensor


class HeadsCall(NamedTuple):
    """One call of a mechanism.

    Attributes:
        mechanism: The mechanism, a layer of the model.
        value: (B, S, N, V); B may be 1.
        output: (B, T, N, V), before the gate of the heads.
        weights: (B, N, T, S), the `SparseWeights` or `SummaryWeights` of a fast mechanism, or None
            for one that makes none.
        masks: The masks of the call.
    """

    mechanism: Any
    value: Tensor
    output: Tensor
    weights: Any
    masks: Masks


Visit = Callable[[HeadsCall], HeadsCall]
_VISIT: ContextVar[Visit | None] = ContextVar("visit of heads", default=None)


@contextmanager
def watch_heads(visit: Visit | None) -> Iterator[None]:
    """Calls `visit` at each call of a mechanism, and goes on with what it returns.

    Use it to record weights, or to find the effect of a change, such as a head that is set to
    zero. It sees the calls that run in Python: eager ones, and those of a function while it is
    traced. A mechanism inside another one is a part of the other's call.

    Args:
        visit: Gets a `HeadsCall` and returns it, or one with another output or other weights, such
            as `call._replace(output=...)`. Most layers use the output only. None for no visits,
            inside another `watch_heads`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, watch_heads
    >>> layer, events = MultiHeadAttention(2, 4), keras.random.normal((1, 5, 8))
    >>> weights = []
    >>> def visit(call):
    ...     weights.append(call.weights)
    ...     return call
    >>> with watch_heads(visit):
    ...     _ = layer(events)
    >>> [tuple(each.shape) for each in weights]
    [(1, 2, 5, 5)]
    """
    token = _VISIT.set(visit)
    try:
        yield
    finally:
        _VISIT.reset(token)


def visitor() -> Visit | None:
    """Returns the visit of the innermost `watch_heads`."""
    return _VISIT.get()
