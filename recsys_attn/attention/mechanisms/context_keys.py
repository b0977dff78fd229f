"""Keys of a context in front of those of a sequence, for `Dense`."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.core.places import PlacesAndTimes
from recsys_attn.attention.scores.base import Score, logits_of
from recsys_attn.tensors import Tensor


def logits_with_context(
    score: Score, query: Tensor, key: Tensor, allowed: Tensor | None, masks: Masks
) -> Tensor:
    """Returns logits (B, N, T, M + S): the context stands at the place of every query.

    Args:
        score: A score.
        query: (B, T, N, H).
        key: (B, M + S, N, H).
        allowed: Booleans that broadcast to (B, N, T, M + S).
        masks: The masks of the call.
    """
    context = masks.context_size
    if not score.positional:
        return logits_of(score, query, key, allowed, masks.rows, masks.columns)
    zeros = [ops.zeros((1, 1, count), "int32") for count in (ops.shape(query)[1], context)]
    here = [PlacesAndTimes(x, x) for x in zeros]
    logits = []
    for part, (rows, columns) in (
        (slice(None, context), here),
        (slice(context, None), (masks.rows, masks.columns)),
    ):
        pairs = None if allowed is None else allowed[..., part]
        logits.append(logits_of(score, query, key[:, part], pairs, rows, columns))
    return ops.concatenate(logits, axis=-1)


def require_no_places(mechanism: Any) -> None:
    """Raises for parts of a `Dense` that need the place or the projection of every key."""
    score, weighting = type(mechanism.score).__name__, type(mechanism.weighting).__name__
    reasons = {
        f"{score} does not look at the keys": not mechanism.uses_key,
        f"{score} has weights for each place": mechanism.built and mechanism.reads_columns,
        f"{score} has one projection for queries and keys": mechanism.shares_query_and_key,
        f"{weighting} counts the keys": mechanism.weighting.needs_query,
        "`pair_values` reads the place or the time of a key": mechanism.pair_values is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise TypeError(
                f"The keys of a context have no place in the sequence, and {reason}. Use "
                "another one, such as 'scaled_dot' with 'softmax'; or give the context to the "
                "events or the norms (`Film`, norm='conditional')"
            )
