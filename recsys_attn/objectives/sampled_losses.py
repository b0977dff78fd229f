"""Losses of the item that came against drawn ones, the negatives.

They cost the same for any number of items, and the gradient of a table has the drawn rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from keras import ops, random

from recsys_attn.backend.distinct import distinct
from recsys_attn.checks import require_bool, require_positive, require_share, unknown_name
from recsys_attn.objectives.chunked_scores import scores_at
from recsys_attn.objectives.item_losses import ITEM_LOSSES, Catalogue, ItemLoss, joined, matched
from recsys_attn.schema import RESERVED_IDS
from recsys_attn.tensors import Tensor

_MASKED = -1e30

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
    """The base class of losses with K drawn negatives; a subclass implements `each`.

    Items are drawn with replacement, and never a reserved id. A drawn item that is the target of
    the position does not count.

    Args:
        negatives: K, the number of drawn items.
        by: `"uniform"`, or `"popularity"`: in proportion to how often an item occurs in training,
            and then never one that does not occur.
        shared: Whether all positions of a call have the same draws, which is one matrix product
            instead of K products for each.

    Raises:
        ValueError: A call has no `seed`, or no `counts` for draws by popularity.
    """

    negatives: int = 1
    by: Distribution = "uniform"
    shared: bool = False

    samples: ClassVar[bool] = True

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
        output: Catalogue,
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
            drawn = scores_at(states, joined(*output.rows(ids)), places)
        is_other = ops.not_equal(draws.ids, targets[:, None])
        target = ops.sum(states * vectors, axis=-1)
        each = self.each(Scores(target, drawn, is_other, draws.log_expected), output.size)
        return ops.sum(ops.cast(weights, "float32") * each)

    def draw(self, shape: Any, size: int, counts: Tensor | None, seed: Any) -> Draws:
        """Returns the draws, ids of this shape from a catalogue of this size."""
        if seed is None:
            raise ValueError(
                f"{type(self).__name__} draws negatives and needs `seed`. Received: seed=None. "
                "Give a keras.random.SeedGenerator, the same in every call"
            )
        log_negatives = ops.log(ops.cast(self.negatives, "float32"))
        if self.by == "uniform":
            ids = random.randint(shape, RESERVED_IDS, size, seed=seed)
            return Draws(ids, log_negatives - ops.log(ops.cast(size - RESERVED_IDS, "float32")))
        if counts is None:
            raise ValueError(
                "by='popularity' needs `counts`, how often each id occurs in training. "
                "Received: counts=None. Give them, or draw with by='uniform'"
            )
        # Integers: a float32 sum stops to grow at 16 million events.
        last = ops.cumsum(ops.cast(counts, "int32")[RESERVED_IDS:])
        events = random.randint(shape, 0, last[-1], seed=seed)
        items = ops.searchsorted(last, ops.reshape(events, (-1,)), side="right")
        ids = RESERVED_IDS + ops.reshape(ops.cast(items, "int32"), shape)
        share = ops.cast(ops.take(counts, ids), "float32") / ops.cast(last[-1], "float32")
        return Draws(ids, log_negatives + ops.log(share))

    def each(self, scores: Scores, size: int) -> Tensor:
        """Returns the loss `(P,)` of each position, for a catalogue of this size."""
        raise NotImplementedError(f"{type(self).__name__} must implement `each`")


@ITEM_LOSSES.register("sampled_softmax")
@dataclass(frozen=True)
class SampledSoftmax(SampledLoss):
    """Cross-entropy over the target and drawn items.

    `loss = log(exp(s_y) + sum_(drawn j != y) exp(s_j - log c_j)) - s_y`, where `c_j` is how often j
    is expected among the draws. With this correction the sum has the expectation of that of the
    full softmax. The target is not drawn, so it has none.

    Sources: Jean et al., "On Using Very Large Target Vocabulary for Neural Machine Translation",
    ACL 2015, arXiv 1412.2007; Khrylchenko et al., "Correcting the LogQ Correction", RecSys 2025,
    arXiv 2507.09331, for the target.

    Args:
        negatives: K, the number of drawn items. Raise it as far as time allows.
        by: As in `SampledLoss`. With the correction `"popularity"` needs fewer negatives.
        shared: As in `SampledLoss`.
        correction: Whether to correct for the draws. Without it, draws by popularity teach scores
            that leave popularity out, so that rare items rank higher.

    Example:

    >>> from recsys_attn.objectives import ITEM_LOSSES
    >>> ITEM_LOSSES.get({"class_name": "sampled_softmax", "config": {"negatives": 64}})
    SampledSoftmax(negatives=64, by='uniform', shared=True, correction=True)
    """

    negatives: int = 128
    shared: bool = True
    correction: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_bool("correction", self.correction)

    def each(self, scores: Scores, size: int) -> Tensor:
        drawn = scores.drawn - scores.log_expected if self.correction else scores.drawn
        drawn = ops.where(scores.is_other, drawn, _MASKED)
        every = ops.concatenate([scores.target[:, None], drawn], axis=1)
        return ops.logsumexp(every, axis=1) - scores.target


@ITEM_LOSSES.register("binary_cross_entropy")
@dataclass(frozen=True)
class BinaryCrossEntropy(SampledLoss):
    """Binary cross-entropy of the target and of each negative, as in SASRec.

    `loss = softplus(-s_y) + sum_(drawn j != y) softplus(s_j)`. With few negatives the model is far
    too sure of the items that it has seen: prefer `Softmax` or `GeneralisedBce`, and keep this one
    to compare with SASRec as it was published.

    Source: Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018,
    arXiv 1808.09781.

    Args:
        negatives, by, shared: As in `SampledLoss`.

    Example:

    >>> from recsys_attn.objectives import ITEM_LOSSES
    >>> ITEM_LOSSES.get("binary_cross_entropy")
    BinaryCrossEntropy(negatives=1, by='uniform', shared=False)
    """

    def each(self, scores: Scores, size: int) -> Tensor:
        drawn = ops.where(scores.is_other, ops.softplus(scores.drawn), 0.0)
        return self.target_weight(size) * ops.softplus(-scores.target) + ops.sum(drawn, axis=1)

    def target_weight(self, size: int) -> float:
        """Returns the factor of the target's term."""
        return 1.0


@ITEM_LOSSES.register("generalised_bce")
@dataclass(frozen=True)
class GeneralisedBce(BinaryCrossEntropy):
    """gBCE: binary cross-entropy whose target counts less, as so few negatives are drawn.

    `loss = beta softplus(-s_y) + sum_(drawn j != y) softplus(s_j)`, with the share
    `alpha = K / (V - 3)` of the other items that is drawn and `beta = 1 - t (1 - alpha)`. With
    t = 1 the sigmoid of a score is a probability; with t = 0 it is `BinaryCrossEntropy`.

    Source: Petrov and Macdonald, "gSASRec: Reducing Overconfidence in Sequential Recommendation
    Trained with Negative Sampling", RecSys 2023, arXiv 2308.07192; without the division by K + 1.

    Args:
        negatives, by, shared: As in `SampledLoss`; the formula is that of uniform draws.
        calibration: t, from 0 to 1. The paper has 0.75 with 256 negatives.

    Example:

    >>> from recsys_attn.objectives import GeneralisedBce
    >>> GeneralisedBce(negatives=10, calibration=0.5).target_weight(size=43)
    0.625
    """

    negatives: int = 256
    calibration: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("calibration", self.calibration)

    def target_weight(self, size: int) -> float:
        drawn = self.negatives / (size - RESERVED_IDS - 1)
        return 1 - self.calibration * (1 - drawn)


@ITEM_LOSSES.register("bpr")
@dataclass(frozen=True)
class Bpr(SampledLoss):
    """Bayesian personalised ranking: the target above each negative.

    `loss = mean over drawn j != y of softplus(s_j - s_y)`, a smooth AUC. It counts a negative at
    the end of the ranking as much as one at its top: for short lists prefer `Softmax`.

    Source: Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009,
    arXiv 1205.2618.

    Args:
        negatives, by, shared: As in `SampledLoss`.

    Example:

    >>> from recsys_attn.objectives import ITEM_LOSSES
    >>> ITEM_LOSSES.get({"class_name": "bpr", "config": {"by": "popularity"}})
    Bpr(negatives=1, by='popularity', shared=False)
    """

    def each(self, scores: Scores, size: int) -> Tensor:
        each = ops.softplus(scores.drawn - scores.target[:, None])
        others = ops.cast(scores.is_other, "float32")
        return ops.sum(others * each, axis=1) / ops.maximum(ops.sum(others, axis=1), 1)
