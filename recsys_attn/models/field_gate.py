"""`FieldGate`: switches whole features and histories off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.embedding_tables import plan_tables, width_of
from recsys_attn.layer import Layer, build_part
from recsys_attn.multitask.experts import hard_concrete
from recsys_attn.schema import Schema
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class FieldGate(Layer):
    """`field = g * field`, with one gate g in [0, 1] for each feature and each history.

    A field whose gate is 0 counts as missing, so that no field attends it. The gates stand before
    the interaction of the fields; the features of a history are its query without them.

    Source: Louizos et al., "Learning Sparse Neural Networks through L0 Regularization", ICLR 2018,
    arXiv 1712.01312, for the inputs of a network.

    Args:
        features: Names of the features, in the order of the blocks; `field_names` has it.
        histories: Names of the histories; the fields of one share a gate.
        gate: A `HardConcrete`, its name or its config. Its penalty is that of one open gate.
        unused: Features without fields, which are the query of a history only. Defaults to none;
            `prune` sets it.

    Call arguments:
        blocks: List of fields `(B, T, F, E)`: of the features, then a block for each history.
        present: List of `(B, T, F)`, False where a value is missing.

    Returns:
        The blocks, without the unused features, and `present`, False for closed fields too.

    Raises:
        TypeError: `gate` is another gate than `HardConcrete`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.field_gate import FieldGate
    >>> gate = FieldGate(("item", "price"), ("clicks",))
    >>> blocks = [keras.random.normal((5, 3, 2, 4)), keras.random.normal((5, 3, 1, 4))]
    >>> gated, present = gate(blocks, [np.ones((5, 3, 2), bool), np.ones((5, 3, 1), bool)])
    >>> [tuple(block.shape) for block in gated], gate.kept
    ([(5, 3, 2, 4), (5, 3, 1, 4)], ('item', 'price', 'clicks'))
    """

    def __init__(
        self,
        features: Sequence[str],
        histories: Sequence[str] = (),
        gate: Any = "hard_concrete",
        unused: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features, self.histories = tuple(features), tuple(histories)
        self.unused = tuple(unused)
        self.gate = hard_concrete("gate", gate)

    @property
    def kept(self) -> tuple[str, ...]:
        """The features and histories with a gate, in its order."""
        return tuple(n for n in (*self.features, *self.histories) if n not in self.unused)

    def build(self, *shapes: Shape) -> None:
        build_part(self, "gate", self.gate, (None, None, len(self.kept), None))
        self.built = True

    def used(self, blocks: list[Tensor], axis: int = -2) -> list[Tensor]:
        """Returns blocks, or masks with `axis=-1`, without the unused features."""
        if not self.unused:
            return blocks
        return [
            block if len(columns) == block.shape[axis] else ops.take(block, columns, axis=axis)
            for block, columns in zip(blocks, self._columns(blocks, axis), strict=True)
            if columns
        ]

    def _columns(self, blocks: list[Tensor], axis: int) -> list[list[int]]:
        """Returns the used columns of each block."""
        names, columns = list(self.features), []
        for block in blocks[: len(blocks) - len(self.histories)]:
            features = [names.pop(0) for _ in range(block.shape[axis])]
            columns.append([i for i, name in enumerate(features) if name not in self.unused])
        rest = blocks[len(blocks) - len(self.histories) :]
        return [*columns, *(list(range(block.shape[axis])) for block in rest)]

    def call(
        self, blocks: list[Tensor], present: list[Tensor], training: bool | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        blocks, present = self.used(blocks), self.used(present, axis=-1)
        gates = self.gate.gates(training)
        begin, gated, known = 0, [], []
        for index, (block, mask) in enumerate(zip(blocks, present, strict=True)):
            is_history = index >= len(blocks) - len(self.histories)
            size = 1 if is_history else block.shape[-2]  # the fields of a history share a gate
            of_block = gates[begin : begin + size]
            gated.append(block * ops.cast(of_block, block.dtype)[:, None])
            known.append(ops.logical_and(mask, of_block > 0))
            begin += size
        return gated, known


def field_names(schema: Schema, width: int) -> tuple[str, ...]:
    """Returns the features in the order of their fields: candidates first, by width.

    Args:
        schema: A fitted schema.
        width: Embedding width of features without a `width`.
    """
    return tuple(
        name
        for side in ("candidate", "context")
        for table in plan_tables(schema, width)
        for names in (table.singles[side], table.bags[side], table.numerics[side])
        for name in names
    )


def field_places(schema: Schema, width: int) -> dict[str, tuple[int, int]]:
    """Returns the place of each feature in the blocks of an interaction: width and column.

    Args:
        schema: A fitted schema.
        width: Embedding width of features without a `width`.
    """
    places, columns = {}, Counter[int]()
    for name in field_names(schema, width):
        size = width_of(schema, name, width)
        places[name] = (size, columns[size])
        columns[size] += 1
    return places


def field_gate(schema: Schema, width: int, gate: Any) -> FieldGate | None:
    """Returns the gates of a model's fields; None for no gate."""
    if gate is None:
        return None
    return FieldGate(field_names(schema, width), tuple(schema.histories), gate)
