"""Losses of the target against drawn items: a smaller softmax, and pairs."""

from __future__ import annotations

from dataclasses import dataclass

from keras import ops

from recsys_attn.checks import require_bool, require_share
from recsys_attn.objectives.item_losses import ITEM_LOSSES
from recsys_attn.objectives.sampling import SampledLoss, Scores
from recsys_attn.schema import RESERVED_IDS
from recsys_attn.tensors import Tensor

_MASKED = -1e30


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

    def losses(self, scores: Scores, size: int) -> Tensor:
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

    def losses(self, scores: Scores, size: int) -> Tensor:
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

    def losses(self, scores: Scores, size: int) -> Tensor:
        losses = ops.softplus(scores.drawn - scores.target[:, None])
        others = ops.cast(scores.is_other, "float32")
        return ops.sum(others * losses, axis=1) / ops.maximum(ops.sum(others, axis=1), 1)
