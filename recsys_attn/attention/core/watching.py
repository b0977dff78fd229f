"""Observation of the heads of a running model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from recsys_attn.attention.core.masks import Masks
from recsys_attn.backend.tracing import CallScope
from recsys_attn.tensors import Tensor


class HeadsCall(NamedTuple):
    """One call of a mechanism, after its output is computed.

    Attributes:
        mechanism: The mechanism, a layer of the model; `mechanism.path` names its place.
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
class Visits:
    """The calls that a block of `watch_heads` has visited so far.

    Attributes:
        calls: Number of visited calls.
    """

    calls: int = 0


@contextmanager
def watch_heads(visit: Visit) -> Iterator[Visits]:
    """Calls `visit` at each call of a mechanism, and continues with its result.

    Use it to record weights, or to find the effect of a change, such as a head that is set to
    zero. A mechanism inside another one is a part of the other's call.

    It sees the calls that run in Python, and ends with the block. A function that is traced inside
    the block, as that of `predict` and `fit`, is not visited, since it would keep the change
    afterwards; nor is one that was traced before. To watch a traced function, put the block into
    it.

    Args:
        visit: Gets a `HeadsCall` and returns it, or one with another output of the same shape, as
            `call._replace(output=...)`. It may return other weights with that output: a few layers
            use both, such as `TargetAttention` with `return_weights`. Every mechanism of a model is
            visited, those with one head too: choose one by `call.mechanism`.

    Returns:
        A context, in which `calls` is the number of visited calls so far.

    Raises:
        RuntimeError: At the end of the block, if no call was visited, or the last one ran in a
            function that was traced inside the block.
        TypeError, ValueError: `visit` returns no `HeadsCall`, one of another shape, or a change
            without an effect: of the masks, the values, or of the weights alone.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, watch_heads
    >>> layer, events = MultiHeadAttention(2, 4), keras.random.normal((1, 5, 8))
    >>> weights = []
    >>> def visit(call):
    ...     weights.append(call.weights)
    ...     return call
    >>> with watch_heads(visit) as visits:
    ...     _ = layer(events)
    >>> visits.calls, [tuple(x.shape) for x in weights]
    (1, [(1, 2, 5, 5)])
    """
    visits = Visits()

    def counted(call: HeadsCall) -> HeadsCall:
        visits.calls += 1
        return visit(call)

    with _VISIT.of(counted) as block:
        yield visits
    if block.missed or not visits.calls:
        raise RuntimeError(
            "`watch_heads` must be around calls of attention that run in Python. Received: "
            f"{visits.calls} such calls, and {'a call' if block.missed else 'perhaps calls'} of a "
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


def visited(visit: Visit, call: HeadsCall) -> tuple[Tensor, Any]:
    """Returns the output and the weights of a call after its visit.

    Raises:
        TypeError: `visit` returns no `HeadsCall`.
        ValueError: It changes a shape, or a field that changes no output.
    """
    result = visit(call)
    if not isinstance(result, HeadsCall):
        raise TypeError(
            "`visit` must return the call that it gets, or `call._replace(output=...)`. "
            f"Received: {type(result).__name__}"
        )
    changed = [name for name in call._fields if getattr(result, name) is not getattr(call, name)]
    if changed and (changed[0] != "output" or changed[1:] not in ([], ["weights"])):
        raise ValueError(
            "`visit` may change the output, and the weights together with it: the output is "
            "computed before the visit, so nothing else changes it. Return "
            f"`call._replace(output=...)`. Received: changed {changed}"
        )
    for name in changed:
        _require_shape(name, getattr(result, name), getattr(call, name))
    return result.output, result.weights


def _require_shape(name: str, new: Any, old: Any) -> None:
    """Raises if the known sizes of tensors differ, but for the batch, which may be 1 for all."""
    shapes = [tuple(getattr(x, "shape", ())) for x in (new, old)]
    pairs = zip(*(shape[1:] for shape in shapes), strict=False)
    if len(shapes[0]) != len(shapes[1]) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ValueError(
            f"`visit` must return {name} of the same shape, {shapes[1]}. Received: {shapes[0]}. "
            "It is called for every mechanism of a model, those with one head too; to change one, "
            "compare `call.mechanism` with its mechanism"
        )
