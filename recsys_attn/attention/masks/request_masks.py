"""Masks of a request: candidates over a history, and windows of time."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.mask_checks import mask_of, tensor_of
from recsys_attn.tensors import Tensor


def candidates(history_mask: Any, count: Any, causal: bool = False) -> Tensor:
    """Returns the mask of a history followed by independent candidates.

    A candidate attends the history and itself; events attend the history. So the score of a
    candidate does not depend on the other candidates, and the history is computed once for all.

    Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential
    Transducers for Generative Recommendations", ICML 2024, arXiv 2402.17152.

    Args:
        history_mask: (B, S), False for padded events.
        count: T, the number of candidates, an integer or a scalar tensor.
        causal: Whether events attend only themselves and earlier events.

    Returns:
        (B, S + T, S + T) booleans, for `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.candidates([[True, True, False]], 2)[0]).astype(int))
    [[1 1 0 0 0]
     [1 1 0 0 0]
     [1 1 0 0 0]
     [1 1 0 1 0]
     [1 1 0 0 1]]
    """
    history_mask = mask_of("history_mask", history_mask, "BS")
    batch, events = ops.shape(history_mask)[0], ops.shape(history_mask)[1]
    history = ops.concatenate([history_mask, ops.zeros((batch, count), dtype="bool")], axis=1)
    columns = ops.arange(events + count, dtype="int32")
    rows = columns[:, None]
    itself = ops.logical_and(rows == columns, rows >= events)
    allowed = history[:, None, :]
    if causal:
        allowed = ops.logical_and(allowed, columns <= rows)
    return ops.logical_or(allowed, itself)


def time_gaps(query_times: Any, key_times: Any, maximum: float, minimum: float = 0) -> Tensor:
    """Returns the mask of a time window: `minimum <= query_time - key_time <= maximum`.

    A minimum of 0 hides future events, and a larger one also recent events that would not be
    available yet in serving.

    Args:
        query_times: (B, T).
        key_times: (B, S), in the same unit; integers stay exact.
        maximum: The largest gap allowed.
        minimum: The smallest gap allowed.

    Returns:
        (B, T, S) booleans, for `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.time_gaps([[10, 20]], [[3, 9, 15]], maximum=6)[0]).astype(int))
    [[0 1 0]
     [0 0 1]]
    """
    if minimum > maximum:
        raise ValueError(
            f"`minimum` must be at most `maximum`. Received: minimum={minimum}, maximum={maximum}"
        )
    query_times = tensor_of("query_times", query_times, "BT")
    key_times = tensor_of("key_times", key_times, "BS")
    gaps = ops.subtract(query_times[:, :, None], key_times[:, None, :])
    return ops.logical_and(ops.less_equal(minimum, gaps), ops.less_equal(gaps, maximum))
