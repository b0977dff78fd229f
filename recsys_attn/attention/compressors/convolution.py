"""Compression by a strided convolution."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.compressors.base import COMPRESSORS, CompressedKeys, Compressor
from recsys_attn.attention.compressors.strides import count_blocks, even_shares, overlapping_blocks
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@COMPRESSORS.register("convolution")
class Convolution(Compressor):
    """Each summary is a learned mix of `width` consecutive events.

    `key'[c] = sum_w W_w key[c * stride + w]`, the values likewise, each head with its own W.

    Padded keys and values are set to zero before the convolution. A summary is masked if all its
    events are padding, apart from those that the previous summary has too. So the amount of padding
    changes nothing. The last block is padded with zeros, so that the newest events count;
    Tensor2Tensor, the authors' code, drops them.

    Source: Liu et al., "Generating Wikipedia by Summarizing Long Sequences", ICLR 2018,
    arXiv 1801.10198.

    Args:
        width: Number of events in a summary.
        stride: Distance between summaries, at most `width`, so that every event is in one.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import Convolution
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> output, _ = Compressed(Convolution(width=3, stride=3))(history[:, :5], history, history)
    >>> tuple(output.shape)
    (2, 5, 4, 8)
    """

    def __init__(self, width: int = 3, stride: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("width", width)
        require_positive("stride", stride)
        if stride > width:
            raise ValueError(
                "`stride` must be at most `width`: no summary would see the events in between. "
                f"Received: width={width}, stride={stride}"
            )
        self.width = width
        self.stride = stride

    def build(self, key_shape: Shape, value_shape: Shape) -> None:
        self.key_kernel = self._kernel("key_kernel", *key_shape[2:])
        self.value_kernel = self._kernel("value_kernel", *value_shape[2:])

    def _kernel(self, name: str, heads: int | None, size: int | None) -> Tensor:
        return self.add_weight(
            shape=(heads, self.width, size, size),
            initializer=blockwise(heads or 0, axis=0),
            name=name,
        )

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        if key_mask is not None:
            present = ops.cast(key_mask, key.dtype)[..., None, None]
            key, value = key * present, value * present
            key_mask = self._mask(key_mask)
        return CompressedKeys(
            self._convolve(key, self.key_kernel),
            self._convolve(value, self.value_kernel),
            key_mask,
        )

    def _mask(self, key_mask: Tensor) -> Tensor:
        """(B, S) -> (B, C), False for summaries that count for nothing."""
        blocks = overlapping_blocks(key_mask, self.width, self.stride)
        # A block that adds only padding would not exist with less padding.
        present = ops.any(blocks[..., self.width - self.stride :], axis=-1)
        return ops.concatenate([ops.any(blocks[:, :1], axis=-1), present[:, 1:]], axis=1)

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns equal shares of the events of a summary, since it mixes their channels."""
        share = even_shares(length, self.width, self.stride, key_mask)
        return share, None if key_mask is None else self._mask(key_mask)

    def _convolve(self, x: Tensor, kernel: Tensor) -> Tensor:
        """(B, S, N, H) -> (B, C, N, H)."""
        return ops.einsum(
            "bcwnh,nwhu->bcnu", overlapping_blocks(x, self.width, self.stride), kernel
        )

    def count(self, length: int | None) -> int | None:
        return None if length is None else count_blocks(length, self.width, self.stride)

    def ends(self, summaries: Tensor) -> Tensor:
        return summaries * self.stride + (self.width - 1)
