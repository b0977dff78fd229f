"""Draws of negatives, and the base class of losses that compare the target with them.

Such losses cost the same for any number of items, and the gradient of a table has the rows of the
targets and of the draws alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from keras import ops

from recsys_attn.backend.distinct import distinct
from recsys_attn.checks import require_bool, require_positive, unknown_name
from recsys_attn.objectives.chunked_scores import scores_at
from recsys_attn.objectives.item_losses import ItemLoss, ItemVectors, joined, matched
from recsys_attn.random_integers import random_below
from recsys_attn.schema import RESERVED_IDS
from recsys_attn.tensors import Tensor

Distribution = Literal["uniform", "popularity"]


class Draws(NamedTuple):
    """Drawn items.

    Attributes:
        ids: `(K,)`, or `(P, K)`.
        log_expected: Logarithm of how often each of them is expected among the K, a number or of
            the shape of `ids`.
    """

    ids: Tensor
    log_expected: Tensor


class Scores(NamedTuple):
    """Scores of P positions.

    Attributes:
        target: `(P,)`.
        drawn: `(P, K)`.
        is_other: `(P, K)`, False where the drawn item is the target.
        log_expected: Of the draws, broadcasts to `(P, K)`.
    """

    target: Tensor
    drawn: Tensor
    is_other: Tensor
    log_expected: Tensor


@dataclass(frozen=True)
class SampledLoss(ItemLoss):
    """The base class of losses with K drawn negatives; a subclass implements `losses`.

    Items are drawn with replacement, and never a reserved id. A drawn item that is the target of
    the position does not count.

    Args:
        negatives: K, the number of drawn items.
        by: `"uniform"`, or `"popularity"`: in proportion to how often an item occurs in training,
            and then never one that does not occur.
        shared: Whether all positions of a call have the same draws: then the scores are one product
            of matrices, which for hundreds of negatives among many items takes at most a tenth of
            the time.

    Raises:
        ValueError: A call has no `seed`, or no `counts` for draws by popularity.
    """

    negatives: int = 1
    by: Distribution = "uniform"
    shared: bool = False

    def __post_init__(self) -> None:
        require_positive("negatives", self.negatives)
        if self.by not in get_args(Distribution):
            raise ValueError(f"Unknown `by`. {unknown_name(self.by, get_args(Distribution))}")
        require_bool("shared", self.shared)

    def __call__(
        self,
        states: Tensor,
        targets: Tensor,
        weights: Tensor,
        output: ItemVectors,
        counts: Tensor | None = None,
        seed: Any = None,
    ) -> Tensor:
        targets = ops.cast(targets, "int32")
        shape = (self.negatives,) if self.shared else (ops.shape(targets)[0], self.negatives)
        draws = self.draw(shape, output.size, counts, seed)
        vectors = joined(*output.rows(targets))
        states = matched(states, vectors)
        if self.shared:
            drawn = ops.matmul(states, ops.transpose(joined(*output.rows(draws.ids))))
        else:
            ids, places = distinct(draws.ids, output.size)
            drawn = scores_at(states, joined(*output.rows(ids)), places, most=output.size)
        is_other = ops.not_equal(draws.ids, targets[:, None])
        target = ops.sum(states * vectors, axis=-1)
        losses = self.losses(Scores(target, drawn, is_other, draws.log_expected), output.size)
        return ops.sum(ops.cast(weights, "float32") * losses)

    def draw(self, shape: Any, size: int, counts: Tensor | None, seed: Any) -> Draws:
        """Returns the draws, ids of this shape from a catalogue of this size."""
        if seed is None:
            raise ValueError(
                f"{type(self).__name__} draws negatives and needs `seed`. Received: seed=None. "
                "Give a keras.random.SeedGenerator, the same in every call"
            )
        log_negatives = ops.log(ops.cast(self.negatives, "float32"))
        if self.by == "uniform":
            ids = RESERVED_IDS + random_below(shape, size - RESERVED_IDS, seed)
            return Draws(ids, log_negatives - ops.log(ops.cast(size - RESERVED_IDS, "float32")))
        if counts is None:
            raise ValueError(
                "by='popularity' needs `counts`, how often each id occurs in training. "
                "Received: counts=None. Give them, or draw with by='uniform'"
            )
        # Integers: a float32 sum stops to grow at 16 million events.
        last = ops.cumsum(ops.cast(counts, "int32")[RESERVED_IDS:])
        events = random_below(shape, last[-1], seed)
        items = ops.searchsorted(last, ops.reshape(events, (-1,)), side="right")
        ids = RESERVED_IDS + ops.reshape(ops.cast(items, "int32"), shape)
        share = ops.cast(ops.take(counts, ids), "float32") / ops.cast(last[-1], "float32")
        return Draws(ids, log_negatives + ops.log(share))

    def losses(self, scores: Scores, size: int) -> Tensor:
        """Returns the loss `(P,)` of each position, for a catalogue of this size."""
        raise NotImplementedError(f"{type(self).__name__} must implement `losses`")
