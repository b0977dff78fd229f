"""Masks of one sequence that attends to itself: padding, a prefix, segments, an order."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.mask_checks import integers_of
from recsys_attn.tensors import Tensor


def padding(lengths: Any, size: Any) -> Tensor:
    """Which positions are real, where padding stands at the end: `s < length`.

    Args:
        lengths: (B,) integers, how many positions of each example are real.
        size: S, an integer or a scalar tensor.

    Returns:
        (B, S) booleans, for `key_mask` or `query_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.padding([2, 0], 3)).astype(int))
    [[1 1 0]
     [0 0 0]]
    """
    return _index(size) < integers_of("lengths", lengths, "B")[:, None]


def prefix(lengths: Any, size: Any) -> Tensor:
    """A prefix that all attend in both directions, causal after it: `s < length or s <= t`.

    Where it has the same length for all examples, take the pattern `Prefix`.

    Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", JMLR 2020, arXiv 1910.10683.

    Args:
        lengths: (B,) integers, the length of each example's prefix.
        size: S, an integer or a scalar tensor.

    Returns:
        (B, S, S) booleans, for `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.prefix([2], 3)[0]).astype(int))
    [[1 1 0]
     [1 1 0]
     [1 1 1]]
    """
    lengths, index = integers_of("lengths", lengths, "B"), _index(size)
    return ops.logical_or(index < lengths[:, None, None], index <= index[:, None])


def sequence_to_sequence(segments: Any) -> Tensor:
    """UniLM's mask: the source in both directions, each target what came before it and itself.

    `c_s <= c_t`, where `c` is the cumulative sum of the segments.

    Source: Dong et al., "Unified Language Model Pre-training for Natural Language Understanding
    and Generation", NeurIPS 2019, arXiv 1905.03197.

    Args:
        segments: (B, S) integers, 0 in the source and 1 in the target after it.

    Returns:
        (B, S, S) booleans, for `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.sequence_to_sequence([[0, 0, 1, 1]])[0]).astype(int))
    [[1 1 0 0]
     [1 1 0 0]
     [1 1 1 0]
     [1 1 1 1]]
    """
    sums = ops.cumsum(integers_of("segments", segments, "BS"), axis=1)
    return sums[:, None, :] <= sums[:, :, None]


def permutation(ranks: Any) -> tuple[Tensor, Tensor]:
    """XLNet's masks: each position sees those that come before it in an order of its own.

    content: `rank_s <= rank_t`; query: `rank_s < rank_t`

    The stream of queries predicts a position and must not see it; the stream of contents may.
    Positions of one rank see each other's content, and those of the lowest rank are context
    that nobody predicts. Distances stay those of the sequence: only the masks are permuted.

    Source: Yang et al., "XLNet: Generalized Autoregressive Pretraining for Language
    Understanding", NeurIPS 2019, arXiv 1906.08237; there 1 means "must not attend".

    Args:
        ranks: (B, S) integers, the place of each position in the order; `argsort` of the order.

    Returns:
        (B, S, S) booleans of the content stream and of the query stream, for `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> content, query = masks.permutation([[1, 2, 0]])  # the last position comes first
    >>> print(np.asarray(content[0]).astype(int))
    [[1 0 1]
     [1 1 1]
     [0 0 1]]
    >>> print(np.asarray(query[0]).astype(int))
    [[0 0 1]
     [1 0 1]
     [0 0 0]]
    """
    ranks = integers_of("ranks", ranks, "BS")
    seen, seeing = ranks[:, None, :], ranks[:, :, None]
    return seen <= seeing, seen < seeing


def _index(size: Any) -> Tensor:
    return ops.arange(size, dtype="int32")
