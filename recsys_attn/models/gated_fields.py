"""Embeddings that are scaled by some of them, as in PEPNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.constant_in_training import ConstantInTraining
from recsys_attn.blocks.gate_unit import GateUnit
from recsys_attn.checks import require_positive
from recsys_attn.embedding_tables import cut
from recsys_attn.field_factors import record_factors
from recsys_attn.layer import Layer
from recsys_attn.models.building_blocks import flatten
from recsys_attn.tensors import Shape, Tensor

Place = tuple[int, int]


@keras.saving.register_keras_serializable(package="recsys_attn")
class GatedFields(Layer):
    """The embeddings side by side, with a gate of each channel (EPNet), then some of them again.

    `[d * e, c]`, with `d = 2 sigmoid(MLP([domain, e]))` for the embeddings e of all fields,
    constants there in training, `domain` those of the named fields, as they are, and c those of
    other named fields, for `GatedTowers`.

    Source: Chang et al., "PEPNet: Parameter and Embedding Personalized Network for Infusing with
    Personalized Prior Information", KDD 2023, arXiv 2302.01115.

    Args:
        domain: Places of the fields that gate all of them, each a width and a column in the block
            of this width; `field_places` has them. Defaults to none: no gate.
        appended: Places of the fields that follow the others. Defaults to none.
        gate_units: Size of the hidden layer of the gate.

    Call arguments:
        blocks: List of fields `(B, T, F, E)`, one per width.
        present: List of `(B, T, F)`, not used: a missing value is a vector of zeros.
        row_mask: `(B, T)`, not used.

    Returns:
        `(B, T, D + C)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.gated_fields import GatedFields
    >>> blocks, present = [keras.random.normal((2, 3, 5, 4))], [np.ones((2, 3, 5), bool)]
    >>> tuple(GatedFields(domain=[(4, 0)], appended=[(4, 2), (4, 3)])(blocks, present).shape)
    (2, 3, 28)
    """

    def __init__(
        self,
        domain: Sequence[Place] = (),
        appended: Sequence[Place] = (),
        gate_units: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("gate_units", gate_units)
        self.domain = [tuple(place) for place in domain]
        self.appended = [tuple(place) for place in appended]
        self.gate_units = gate_units
        self.gate = GateUnit(gate_units, dtype=self.dtype_policy) if self.domain else None
        self.constant = ConstantInTraining(dtype=self.dtype_policy)

    @property
    def scales_fields(self) -> bool:
        """Whether there is a gate."""
        return self.gate is not None

    def build(self, *shapes: Shape) -> None:
        self.built = True  # the gate is built by its first call

    def call(
        self, blocks: list[Tensor], present: list[Tensor], row_mask: Tensor | None = None
    ) -> Tensor:
        by_width = {block.shape[-1]: block for block in blocks}
        vector = ops.concatenate([flatten(block) for block in blocks], axis=-1)
        if self.gate is not None:
            domain = [by_width[width][..., column, :] for width, column in self.domain]
            condition = ops.concatenate([*domain, self.constant(vector)], axis=-1)
            factors = self.gate(ops.ones_like(vector), condition)
            record_factors(_means(factors, blocks))
            vector = vector * factors
        appended = [by_width[width][..., column, :] for width, column in self.appended]
        return ops.concatenate([vector, *appended], axis=-1)


def _means(factors: Tensor, blocks: list[Tensor]) -> Tensor:
    """Returns the mean factor of each field, (B, T, F), from those of the channels."""
    sizes = [block.shape[-2] * block.shape[-1] for block in blocks]
    parts = zip(cut(factors, sizes, -1), blocks, strict=True)
    shapes = ((part, (*ops.shape(block)[:-1], block.shape[-1])) for part, block in parts)
    return ops.concatenate([ops.mean(ops.reshape(p, s), axis=-1) for p, s in shapes], axis=-1)
