"""The base class of losses over a catalogue of items, their registry, and the full softmax.

A loss compares the score of the item that came with the scores of others. How many others, and how
they are drawn, decides cost and quality more than most parts of a model.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

from keras import ops

from recsys_attn.checks import require_positive
from recsys_attn.objectives.chunked_scores import CHUNK_NUMBERS, cross_entropy
from recsys_attn.registry import Registry
from recsys_attn.schema import RESERVED_IDS
from recsys_attn.tensors import Config, Tensor

_LEAST_CHUNK = 128  # positions; with fewer a large table is read more often than it is worth


class ItemVectors(Protocol):
    """The vectors `(..., E)` and the offsets `(...)`, or None, of items: a sequence model has it.

    Attributes:
        size: V, the number of ids, with the reserved ones.
    """

    @property
    def size(self) -> int: ...

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the vectors and offsets of some ids, with sparse gradients on TensorFlow."""

    def table(self) -> tuple[Tensor, Tensor | None]:
        """Returns the vectors and offsets of all ids, in order."""


@dataclass(frozen=True)
class ItemLoss:
    """A loss of predicting one item of a catalogue at each position.

    Call arguments:
        states: `(P, E)`, whose products with the vectors of items are scores.
        targets: `(P,)`, the ids of the items that came.
        weights: `(P,)`; 0 leaves a position out.
        output: The `ItemVectors`.
        counts: `(V,)`, how often each id occurs in training, together at most 2^31 - 2^15; for
            draws by popularity.
        seed: A `keras.random.SeedGenerator`; for draws.

    Returns:
        The sum over positions of weight times loss, a scalar in float32.

    Example:

    >>> from dataclasses import dataclass
    >>> from keras import ops
    >>> from recsys_attn.objectives import ITEM_LOSSES, ItemLoss
    >>> @dataclass(frozen=True)
    ... class Likelihood(ItemLoss):
    ...     def __call__(self, states, targets, weights, output, counts=None, seed=None):
    ...         scores = ops.sum(states * output.rows(targets)[0], axis=-1)
    ...         return ops.sum(weights * ops.softplus(-scores))
    >>> ITEM_LOSSES.get(Likelihood())
    Likelihood()
    """

    def __call__(
        self,
        states: Tensor,
        targets: Tensor,
        weights: Tensor,
        output: ItemVectors,
        counts: Tensor | None = None,
        seed: Any = None,
    ) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`")

    def get_config(self) -> Config:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_config(cls, config: Config) -> ItemLoss:
        return cls(**config)


ITEM_LOSSES = Registry("an item loss", "item_losses", ItemLoss)


def joined(vectors: Tensor, offsets: Tensor | None) -> Tensor:
    """Returns vectors in float32, with their offset as one more entry if there is one."""
    vectors = ops.cast(vectors, "float32")
    if offsets is None:
        return vectors
    return ops.concatenate([vectors, ops.cast(offsets, "float32")[..., None]], axis=-1)


def matched(states: Tensor, vectors: Tensor) -> Tensor:
    """Returns states in float32, with a 1 for the offset if `joined` vectors have one."""
    states = ops.cast(states, "float32")
    if vectors.shape[-1] == states.shape[-1]:
        return states
    return ops.concatenate([states, ops.ones_like(states[:, :1])], axis=-1)


@ITEM_LOSSES.register("softmax")
@dataclass(frozen=True)
class Softmax(ItemLoss):
    """Cross-entropy over the whole catalogue; reserved ids have no probability.

    `loss = log sum_(j >= 2) exp(s_j) - s_y`. The best choice where time allows, which is up to
    about 100,000 items. Memory does not grow with the number of positions: gradients are computed
    together with the loss, chunk by chunk, and no logits are kept.

    Source: Klenitskiy and Vasilev, "Turning Dross Into Gold Loss: is BERT4Rec really better than
    SASRec?", RecSys 2023, arXiv 2309.07602.

    Args:
        chunk: Number of positions whose logits exist at once. Defaults to two million logits, and
            at least 128 positions. Lower it where there are millions of items and too little
            memory.

    Example:

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from recsys_attn.objectives import Softmax
    >>> output = SimpleNamespace(size=5, table=lambda: (np.zeros((5, 4), "float32"), None))
    >>> loss = Softmax()(np.ones((2, 4)), np.array([2, 4]), np.array([1.0, 0.0]), output)
    >>> round(float(loss), 3)  # log 3
    1.099
    """

    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.chunk is not None:
            require_positive("chunk", self.chunk)

    def __call__(
        self,
        states: Tensor,
        targets: Tensor,
        weights: Tensor,
        output: ItemVectors,
        counts: Tensor | None = None,
        seed: Any = None,
    ) -> Tensor:
        items = joined(*output.table())[RESERVED_IDS:]
        # A position that is left out may have a reserved id.
        wanted = ops.maximum(ops.cast(targets, "int32") - RESERVED_IDS, 0)
        weights = ops.cast(weights, "float32")
        chunk = self.chunk or max(_LEAST_CHUNK, CHUNK_NUMBERS // output.size)
        return cross_entropy(matched(states, items), items, wanted, weights, chunk)
