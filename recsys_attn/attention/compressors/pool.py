"""Compression by means or maxima of consecutive events."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.compressors.base import COMPRESSORS, CompressedKeys, Compressor
from recsys_attn.attention.compressors.strides import count_blocks, even_shares, overlapping_blocks
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.tensors import Tensor

_LOWEST = float(np.finfo("float32").min / 2)  # finite in bfloat16 too


@COMPRESSORS.register("pool")
class Pool(Compressor):
    """Each summary is the mean or the maximum of `size` consecutive events.

    It has no weights and leaves padding out: a summary of padding only is masked, and the last one
        may have fewer events.

    Args:
        size: Number of events in a summary.
        kind: `"mean"` or `"max"`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import Pool
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> output, _ = Compressed(Pool(5), causal=True)(history, history, history)
    >>> tuple(output.shape)
    (2, 50, 4, 8)
    """

    def __init__(self, size: int = 3, kind: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("size", size)
        if kind not in _KINDS:
            raise ValueError(f"`kind` must be the name of a pooling. {unknown_name(kind, _KINDS)}")
        self.size = size
        self.kind = kind

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        length = ops.shape(key)[1]
        # Even without a mask the last block may have padding.
        mask = ops.ones((1, length), "bool") if key_mask is None else key_mask
        present = overlapping_blocks(mask, self.size, self.size)  # (B, C, size)
        pool = _KINDS[self.kind]
        return CompressedKeys(
            pool(overlapping_blocks(key, self.size, self.size), present),
            pool(overlapping_blocks(value, self.size, self.size), present),
            None if key_mask is None else ops.any(present, axis=-1),
        )

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns equal shares of the events of a summary; a maximum has no shares of its own."""
        share = even_shares(length, self.size, self.size, key_mask)
        return share, None if key_mask is None else ops.any(share[:, 0] > 0, axis=-1)

    def count(self, length: int | None) -> int | None:
        return None if length is None else count_blocks(length, self.size, self.size)

    def ends(self, summaries: Tensor) -> Tensor:
        return summaries * self.size + (self.size - 1)


def _mean(blocks: Tensor, present: Tensor) -> Tensor:
    """(B, C, size, N, H), (B, C, size) -> (B, C, N, H)."""
    weights = ops.cast(present, blocks.dtype)[..., None, None]
    return ops.sum(blocks * weights, axis=2) / ops.maximum(ops.sum(weights, axis=2), 1)


def _max(blocks: Tensor, present: Tensor) -> Tensor:
    # `initial`, so that zero blocks are no error.
    real = ops.where(present[..., None, None], blocks, _LOWEST)
    highest = ops.max(real, axis=2, initial=_LOWEST)
    return ops.where(ops.any(present, axis=2)[..., None, None], highest, 0)


_KINDS = {"max": _max, "mean": _mean}
