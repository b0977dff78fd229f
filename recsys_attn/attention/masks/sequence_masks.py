"""Masks of self-attention: padding, a prefix, segments, a permutation."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.mask_checks import integers_of
from recsys_attn.tensors import Tensor


def padding(lengths: Any, size: Any) -> Tensor:
    """Returns the mask of padding at the end: `s < length`.

    Args:
        lengths: (B,) integers, the number of real positions of each example.
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
    """Returns the mask of a prefix LM: `s < length or s <= t`.

    All positions attend the prefix; after it attention is causal. If all examples have one prefix
    length, use the pattern `Prefix`.

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
    """Returns UniLM's mask: bidirectional in the source, causal in the target.

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
    """Returns XLNet's masks: each position attends those before it in a random order.

    content: `rank_s <= rank_t`; query: `rank_s < rank_t`

    The query stream predicts a position and must not attend it; the content stream may. Positions
    of equal rank attend each other's content, and those of the lowest rank are context without a
    prediction. Positions stay those of the sequence: only the masks are permuted.

    Source: Yang et al., "XLNet: Generalized Autoregressive Pretraining for Language
    Understanding", NeurIPS 2019, arXiv 1906.08237; there 1 means "must not attend".

    Args:
        ranks: (B, S) integers, the rank of each position in the order: `argsort` of the order.

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
