"""The weights of fields in an interaction, by attention or by factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.core.watching import HeadsCall, visitor
from recsys_attn.interactions.factorization_machine import pair_places
from recsys_attn.tensors import Tensor


def mean_factors(factors: Sequence[Tensor], present: Sequence[Tensor]) -> Tensor:
    """Returns the mean of the factors of fields that layers recorded, `(B, T, F)`, in float32.

    Args:
        factors: Of each layer, what broadcasts to `(B, T, F)`.
        present: List of `(B, T, F)`, one per width; a missing field has the factor 0.
    """
    there = ops.cast(ops.concatenate(list(present), axis=-1), "float32")
    return there * sum(ops.cast(of_layer, "float32") for of_layer in factors) / len(factors)


class FieldWeights:
    """Records the attention of an interaction, as the visit of `visiting`.

    Args:
        count: The number F of fields.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._calls: list[HeadsCall] = []
        self._outer = visitor()

    def visit(self, call: HeadsCall) -> HeadsCall:
        """Records a call, after the visit of the block around, if there is one."""
        call = call if self._outer is None else self._outer(call)
        self._calls.append(call)
        return call

    def mean(self, leading: tuple[Any, ...]) -> Tensor:
        """Returns the weight that each field receives, `(B, T, F)`, in float32.

        The mean over layers, heads and the attending fields that are not missing. A pair of fields
        gives each of them half of its weight. Zeros where no layer has a head left.

        Args:
            leading: B and T.
        """
        by_layer = [self._of_layer(call) for call in self._calls if call.weights.shape[1]]
        if not by_layer:
            return ops.zeros((*leading, self._count))
        return ops.reshape(sum(by_layer) / len(by_layer), (*leading, self._count))

    def _of_layer(self, call: HeadsCall) -> Tensor:
        """Returns the mean weights of one layer, (rows, F)."""
        weights = ops.mean(ops.cast(call.weights, "float32"), axis=1)  # (rows, T, S)
        if tuple(weights.shape[1:]) == (1, self._count * (self._count - 1) // 2):
            pairs = [ops.one_hot(places, self._count) for places in pair_places((self._count, 1))]
            return ops.matmul(weights[:, 0], sum(pairs) / 2)
        if call.masks.key is None:
            return ops.mean(weights, axis=1)
        there = ops.cast(call.masks.key, "float32")[..., None]
        return ops.sum(weights * there, axis=1) / ops.maximum(ops.sum(there, axis=1), 1.0)
