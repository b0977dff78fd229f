"""Linformer's compression by learned sums over all positions."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.compressors.base import COMPRESSORS, CompressedKeys, Compressor
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@COMPRESSORS.register("low_rank")
class LowRank(Compressor):
    """Each summary is a learned sum over all positions: `E K` and `F V`.

    `E` and `F` (rank x length) are learned for each head. A shorter sequence uses their first S
    columns. Padded keys and values are set to zero before the sums; the summaries are never masked.

    Use it for fields, or for a history of fixed length. Each summary depends on every event, so it
    has no causal form and no position.

    Source: Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020,
    arXiv 2006.04768.

    Args:
        rank: Number of summaries C.
        length: Largest number of keys. Defaults to the number of keys in `build`.
        share_key_and_value: Whether `F = E`. Defaults to False; True halves the weights.

    Raises:
        ValueError: The sequence is longer than `length`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import LowRank
    >>> fields = keras.random.normal((2, 100, 4, 8))
    >>> output, _ = Compressed(LowRank(16))(fields, fields, fields)
    >>> tuple(output.shape)
    (2, 100, 4, 8)
    """

    ordered = False

    def __init__(
        self,
        rank: int,
        length: int | None = None,
        share_key_and_value: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("rank", rank)
        if length is not None:
            require_positive("length", length)
        require_bool("share_key_and_value", share_key_and_value)
        self.rank = rank
        self.length = length
        self.share_key_and_value = share_key_and_value

    def build(self, key_shape: Shape, value_shape: Shape) -> None:
        longest = self.length or key_shape[1]
        if longest is None:
            raise ValueError(
                "LowRank needs the length of the longest sequence. Give `length`, since the "
                f"number of keys is not known. Received: key.shape={tuple(key_shape)}"
            )
        self._columns = longest
        self._check_length(key_shape[1])
        self.key_kernel = self._projection("key_kernel", key_shape[2])
        if not self.share_key_and_value:
            self.value_kernel = self._projection("value_kernel", key_shape[2])

    def _projection(self, name: str, heads: int | None) -> Tensor:
        return self.add_weight(
            shape=(heads, self.rank, self._columns),
            initializer=blockwise(heads or 0, axis=0),
            name=name,
        )

    def _check_length(self, length: int | None) -> None:
        if length is not None and length > self._columns:
            raise ValueError(
                f"LowRank is made for a `length` of at most {self._columns} events. Make it with "
                f"a greater `length` or cut the sequence. Received: {length} events"
            )

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        self._check_length(key.shape[1])
        if key_mask is not None:
            present = ops.cast(key_mask, key.dtype)[..., None, None]
            key, value = key * present, value * present
        of_value = self.key_kernel if self.share_key_and_value else self.value_kernel
        return CompressedKeys(_sums(self.key_kernel, key), _sums(of_value, value), None)

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        of_value = self.key_kernel if self.share_key_and_value else self.value_kernel
        share = ops.cast(of_value[:, :, :length], "float32")[None]
        if key_mask is not None:
            share = ops.where(key_mask[:, None, None], share, 0.0)
        return share, None

    def count(self, length: int | None) -> int | None:
        return self.rank


def _sums(kernel: Tensor, x: Tensor) -> Tensor:
    """(N, C, length), (B, S, N, H) -> (B, C, N, H)."""
    return ops.einsum("ncs,bsnh->bcnh", kernel[:, :, : ops.shape(x)[1]], x)
