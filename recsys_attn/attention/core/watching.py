"""Sight of the heads of a model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from recsys_attn.attention.core.masks import Masks
from recsys_attn.backend.tracing import CallScope
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
_VISIT: CallScope[Visit | None] = CallScope("visit of heads", None)


@dataclass
class Seen:
    """What a block of `watch_heads` has seen so far.

    Attributes:
        calls: Number of visited calls.
    """

    calls: int = 0


@contextmanager
def watch_heads(visit: Visit) -> Iterator[Seen]:
    """Calls `visit` at each call of a mechanism, and goes on with what it returns.

    Use it to record weights, or to find the effect of a change, such as a head that is set to
    zero. A mechanism inside another one is a part of the other's call.

    It sees the calls that run in Python, and ends with the block. A function that is traced inside
    the block, as that of `predict` and `fit`, is not visited, since it would keep the change
    afterwards; nor is one that was traced before. To watch a traced function, put the block into
    it.

    Args:
        visit: Gets a `HeadsCall` and returns it, or one with another output or other weights, such
            as `call._replace(output=...)`. Most layers use the output only.

    Returns:
        A context, in which `calls` is the number of visited calls so far.

    Raises:
        RuntimeError: At the end of the block, if no call was visited, or the last one ran in a
            function that was traced inside the block.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, watch_heads
    >>> layer, events = MultiHeadAttention(2, 4), keras.random.normal((1, 5, 8))
    >>> weights = []
    >>> def visit(call):
    ...     weights.append(call.weights)
    ...     return call
    >>> with watch_heads(visit) as seen:
    ...     _ = layer(events)
    >>> seen.calls, [tuple(each.shape) for each in weights]
    (1, [(1, 2, 5, 5)])
    """
    seen = Seen()

    def counted(call: HeadsCall) -> HeadsCall:
        seen.calls += 1
        return visit(call)

    with _VISIT.of(counted) as block:
        yield seen
    if block.missed or not seen.calls:
        raise RuntimeError(
            "`watch_heads` must be around calls of attention that run in Python. Received: "
            f"{seen.calls} such calls, and {'a call' if block.missed else 'perhaps calls'} of a "
            "traced function, as `predict`, `fit`, `tf.function` and `jax.jit` make one, which is "
            "not visited. Call the model itself, `model(inputs)`; compile it with "
            "`run_eagerly=True`; or put `watch_heads` into the function"
        )


@contextmanager
def visiting(visit: Visit | None) -> Iterator[None]:
    """Calls `visit` as `watch_heads` does, if there are calls at all; None for no visits."""
    with _VISIT.of(visit):
        yield


def visitor() -> Visit | None:
    """Returns the visit of the innermost block around this call."""
    return _VISIT.get()
