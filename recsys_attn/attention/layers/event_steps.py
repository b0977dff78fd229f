"""One more event for causal attention: from the cache of the events before it."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.core.places import pairs, resolve
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.mechanisms.dense import Dense, attention
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.blocks import Block
from recsys_attn.attention.patterns.tokens import Global
from recsys_attn.attention.routers.blocks import Blocks
from recsys_attn.attention.scores.base import logits_of
from recsys_attn.attention.weightings.softmax import masked_softmax
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor


class KeyValueState(NamedTuple):
    """The last C events of each sequence, the latest at the end.

    Args:
        keys: (B, C, K, H), with the K heads of keys.
        values: (B, C, K, V).
        count: (B,), the number of all events so far, int32.
    """

    keys: Tensor
    values: Tensor
    count: Tensor


def require_steps(layer: MultiHeadAttention) -> None:
    """Raises unless attention gets the same output event by event as over the whole sequence.

    Raises:
        TypeError: An event sees later ones, or summaries or groups that later ones change.
    """
    mechanism = layer.mechanism
    routed = isinstance(mechanism, Routed) and isinstance(mechanism.router, Blocks)
    linear = hasattr(mechanism, "initial_state") and hasattr(mechanism, "update")
    if not (isinstance(mechanism, Dense) or routed or linear):
        raise TypeError(
            f"{type(mechanism).__name__} has no state that one more event continues: its groups or "
            "summaries are those of the whole sequence. Use Dense, Routed with the router Blocks, "
            "or Linear"
        )
    mechanism.require_one_projection("Recurrence")
    if mechanism.uses_times:
        raise TypeError(
            "The score reads times, which a step does not have. Use positions by place, such as "
            "'learned' or 'alibi'"
        )
    if layer.context_heads is not None:
        raise TypeError(
            "The attention is built with a `context`, which a step does not have. Give the context "
            "to the events before it, such as by Film"
        )
    if not mechanism.is_causal:
        raise TypeError(
            f"{type(mechanism).__name__} is not causal here, so a later event changes the outputs "
            "of earlier ones. Give it a causal pattern such as 'causal' or Local(50, 0), or "
            "causal=True"
        )


def initial_state(layer: MultiHeadAttention, batch_size: Any, length: int | None) -> Any:
    """Returns the state of attention before the first event.

    Args:
        layer: The attention.
        batch_size: B.
        length: The most events of a cache, where the pattern has no bound.

    Raises:
        ValueError: Neither the pattern nor the score bounds the cache, and there is no `length`.
    """
    mechanism = layer.mechanism
    if not isinstance(mechanism, Dense | Routed):
        return mechanism.initial_state(batch_size)
    if length is not None:
        require_positive("length", length)
    reach = _pattern(mechanism).reach
    bounds = (None if reach is None else reach + 1, mechanism.score.most_keys, length)
    events = min((bound for bound in bounds if bound is not None), default=None)
    if events is None:
        raise ValueError(
            "`length` is needed, the most events that the cache holds: the pattern "
            f"{mechanism.pattern!r} lets an event attend all earlier ones. Give it, or use a "
            "pattern with a bound such as Local(50, 0). Received: length=None"
        )
    event = ops.zeros((1, 1, layer.build_shapes[0][-1]), layer.variable_dtype)
    _, key, value = layer.project_once(event, event, None)
    keys, values = (
        ops.zeros((batch_size, events, *x.shape[2:]), layer.compute_dtype) for x in (key, value)
    )
    return KeyValueState(keys, values, ops.zeros((batch_size,), "int32"))


def step(
    layer: MultiHeadAttention, state: Any, event: Tensor, first: Tensor | None = None
) -> tuple[Tensor, Any]:
    """Returns the output (B, 1, E) of one more event (B, 1, E), and the new state.

    `first` (B,) is the place from which on the event attends, and from which positions count.
    """
    # The projections outside of a call are as exact as their weights.
    event = ops.cast(event, layer.variable_dtype)
    query, key, value = layer.project_once(event, event, None)
    mechanism = layer.mechanism
    if not isinstance(mechanism, Dense | Routed):
        state = mechanism.update(state, layer.at_queries(key), layer.at_queries(value))
        return _joined(layer, layer.heads.gated(mechanism.read(state, query), event)), state
    count = ops.convert_to_tensor(state.count)
    keys, values = (
        ops.concatenate([ops.convert_to_tensor(cache)[:, 1:], ops.cast(new, cache.dtype)], axis=1)
        for cache, new in ((state.keys, key), (state.values, value))
    )
    size = ops.shape(keys)[1]
    first = ops.zeros_like(count) if first is None else first
    places = count[:, None] + ops.arange(1 - size, 1, dtype="int32")
    place, keys_at = count - first, places - first[:, None]
    masks = Masks(
        key=ops.logical_and(places >= 0, keys_at >= 0),
        query_positions=place[:, None, None],
        key_positions=keys_at[:, None],
    )
    attend = _routed if isinstance(mechanism, Routed) else _dense
    heads = query, layer.at_queries(keys), layer.at_queries(values)
    output = _joined(layer, attend(layer, heads, event, masks))
    if mechanism.score.most_keys is not None:
        # The score has no weights for more events: NaN, not the output of another position.
        known = place < mechanism.score.most_keys
        output = ops.where(known[:, None, None], output, float("nan"))
    return output, KeyValueState(keys, values, count + 1)


def _joined(layer: MultiHeadAttention, output: Tensor) -> Tensor:
    return ops.cast(layer.join(ops.cast(output, layer.variable_dtype)), layer.compute_dtype)


def _dense(layer: Any, heads: tuple[Tensor, ...], event: Tensor, masks: Masks) -> Tensor:
    output, _ = layer.heads(*heads, event, masks=masks)
    return output


def _routed(layer: Any, heads: tuple[Tensor, ...], event: Tensor, masks: Masks) -> Tensor:
    mechanism, (query, key, value) = layer.mechanism, heads
    row, column = pairs(*resolve(query, key, masks.query_positions, masks.key_positions))
    allowed = ops.logical_and(masks.allowed(), _pattern(mechanism)(row, column, row + 1))

    def score(query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
        logits = logits_of(mechanism.score, query, key, allowed, masks.rows, masks.columns)
        return ops.cast(logits, "float32")

    def weighting(logits: Tensor, allowed: Tensor | None) -> Tensor:
        return ops.cast(masked_softmax(logits, allowed), mechanism.compute_dtype)

    output, _ = attention(query, key, value, score, weighting, allowed)
    return ops.cast(layer.heads.gated(output, event), layer.compute_dtype)


def _pattern(mechanism: Any) -> Any:
    """Returns the pattern of a mechanism; of a routed one, inside the groups of its blocks."""
    if isinstance(mechanism, Dense):
        return mechanism.pattern
    router = mechanism.router
    in_groups: Pattern = Block(router.size, router.before, router.after)
    tokens = (*range(router.size * router.first), *router.tokens)
    if tokens:
        in_groups = in_groups | Global(tokens)
    return in_groups & mechanism.pattern
