"""Losses for requests with several candidates.

A loss of `LOSSES` is a pure function of labels, logits and a mask `(B, T)`, and gives one number
for each request. The loss of a batch is the sum of these numbers, divided by the number of
candidates where a loss teaches probabilities, else of requests, so that batches can be computed in
parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import keras
from keras import ops

from recsys_attn.loss_options import LossName, LossOptions, loss_options
from recsys_attn.tensors import Tensor

_MASKED = -1e30


@keras.saving.register_keras_serializable(package="recsys_attn")
class CandidateCrossentropy(keras.losses.Loss):
    """Binary cross-entropy of logits, one value per candidate.

    `loss = -y log sigmoid(z) - (1 - y) log(1 - sigmoid(z))`. Keras' loss takes the mean over the
    last axis, here the candidates, before sample weights can remove padded candidates and unknown
    labels. This loss keeps `(B, T)` and divides by the sum of the weights.

    Args:
        reduction: Reduction over all candidates, a name of Keras.
        name: Name of the loss.

    Call arguments:
        y_true: `(B, T)`, 0 or 1.
        y_pred: Logits `(B, T)`.
        sample_weight: `(B, T)`, 0 for candidates that do not count.

    Returns:
        The loss, a scalar.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import CandidateCrossentropy
    >>> label, logit = np.array([[1.0, 0.0]]), np.array([[0.0, 9.0]])
    >>> loss = CandidateCrossentropy()(label, logit, sample_weight=np.array([[1.0, 0.0]]))
    >>> round(float(loss), 3)
    0.693
    """

    def __init__(
        self, reduction: str = "mean_with_sample_weight", name: str = "candidate_crossentropy"
    ) -> None:
        super().__init__(reduction=reduction, name=name)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return ops.binary_crossentropy(y_true, y_pred, from_logits=True)


def cross_entropy_loss(
    labels: Tensor, logits: Tensor, mask: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Sum of the binary cross-entropy of a request's candidates; teaches probabilities.

    `loss = sum_i -y_i log sigmoid(z_i) - (1 - y_i) log(1 - sigmoid(z_i))`, with smoothing s of the
    labels `(1 - s) y_i + s / 2`. Then a rate p is taught as `(1 - s) p + s / 2`: the sigmoid is no
    probability before it is calibrated.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.
        smoothing: s, from 0 to below 1. Raise it to 0.05 where labels are often wrong.

    Returns:
        `(B,)`; divide their sum by that of `known_candidates`.

    Source:
        Szegedy et al. 2016, Rethinking the Inception Architecture for Computer Vision,
        arXiv 1512.00567, section 7, for the smoothing.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import cross_entropy_loss
    >>> labels, mask = np.array([[1.0, 0.0]]), np.array([[1, 1]])
    >>> np.round(cross_entropy_loss(labels, np.zeros((1, 2)), mask), 3).tolist()
    [1.386]
    """
    known, labels, logits = _known(labels, logits, mask)
    if smoothing:
        labels = labels * (1 - smoothing) + smoothing / 2
    losses = ops.binary_crossentropy(labels, logits, from_logits=True)
    return ops.sum(losses * ops.cast(known, losses.dtype), axis=-1)


def focal_loss(labels: Tensor, logits: Tensor, mask: Tensor, gamma: float = 2.0) -> Tensor:
    """Focal loss: cross-entropy with less weight for candidates that are right already.

    `loss = sum_i -y_i (1 - p_i)^gamma log p_i - (1 - y_i) p_i^gamma log(1 - p_i)`, with
    `p = sigmoid(z)`. It orders candidates as probabilities do, but p lies nearer to 1/2 than the
    rate: the sigmoid is no probability before it is calibrated.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.
        gamma: Focus on candidates that are wrong; 0 is cross-entropy.

    Returns:
        `(B,)`; divide their sum by that of `known_candidates`.

    Source:
        Lin et al. 2017, Focal Loss for Dense Object Detection, arXiv 1708.02002, equation 4;
        without the weight of a class, which `calibrate` would take back.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import focal_loss
    >>> labels, mask = np.array([[1.0, 0.0]]), np.array([[1, 1]])
    >>> np.round(focal_loss(labels, np.zeros((1, 2)), mask), 3).tolist()  # a quarter
    [0.347]
    """
    known, labels, logits = _known(labels, logits, mask)
    of_positive, of_negative = ops.softplus(-logits), ops.softplus(logits)  # -log p, -log(1 - p)
    losses = labels * ops.exp(-gamma * of_negative) * of_positive
    losses += (1 - labels) * ops.exp(-gamma * of_positive) * of_negative
    return ops.sum(losses * ops.cast(known, losses.dtype), axis=-1)


def jrc_loss(labels: Tensor, logits: Tensor, mask: Tensor, alpha: float = 0.5) -> Tensor:
    """Joint ranking and calibration: cross-entropy, and the softmax over a request's candidates.

    `loss = alpha sum_i CE(y_i, z_i) + (1 - alpha) sum_(i: y_i = 1) (log sum_j exp(z_j) - z_i)`

    JRC has a logit of each label for each candidate, `f_i[1]` and `f_i[0]`, of which the first term
    is the cross-entropy, and the second the likelihood of a candidate among those of its request,
    given its label: `-log(exp f_i[y_i] / sum_j exp f_j[y_i])`. A model here has one logit for each
    candidate: this is JRC with `f_i = [0, z_i]`, without the logarithm of the number of candidates
    that each negative adds then. So the second term moves the logits of a request apart only where
    it has a positive; moving all of them together changes the first term alone, which keeps the
    mean probability at the observed rate. Two logits could fit both terms at once; one is a
    compromise between them.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.
        alpha: Share of the cross-entropy; 1 is cross-entropy alone. Lower it where the order of the
            candidates counts more than their probabilities.

    Returns:
        `(B,)`; divide their sum by that of `known_candidates`.

    Source:
        Sheng et al., Joint Optimization of Ranking and Calibration with Contextualized Hybrid
        Model, KDD 2023, arXiv 2208.06164.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import jrc_loss
    >>> labels, mask = np.array([[1.0, 0.0]]), np.array([[1, 1]])
    >>> np.round(jrc_loss(labels, np.zeros((1, 2)), mask), 3).tolist()  # 0.5 * 3 log 2
    [1.04]
    """
    calibration = cross_entropy_loss(labels, logits, mask)
    known, labels, logits = _known(labels, logits, mask)
    total = ops.logsumexp(ops.where(known, logits, _MASKED), axis=-1, keepdims=True)
    losses = labels * ops.cast(known, logits.dtype) * (total - logits)
    return alpha * calibration + (1 - alpha) * ops.sum(losses, axis=-1)


def softmax_loss(labels: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    """Listwise cross-entropy: the negative log-probability of a request's positives.

    `loss = 1 / P * sum_(i: y_i = 1) (log sum_j exp(z_j) - z_i)`, with P positives. The choice where
    one candidate of a request is taken, as in next-item prediction: it bounds NDCG and MRR.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.

    Returns:
        `(B,)`; 0 for a request without a positive or without a negative. Divide their sum by that
        of `comparable_requests`.

    Source:
        Cao et al. 2007, Learning to Rank: From Pairwise Approach to Listwise Approach; Bruch et
        al. 2019, An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary
        Relevance.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import softmax_loss
    >>> labels, mask = np.array([[1.0, 0.0, 0.0]]), np.array([[1, 1, 0]])
    >>> np.round(softmax_loss(labels, np.zeros((1, 3)), mask), 3).tolist()
    [0.693]
    """
    requests = _requests(labels, logits, mask)
    total = requests.of_positives + requests.of_negatives
    return _over_positives(requests, ops.log(total) * requests.positives)


def bpr_loss(labels: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    """Bayesian personalised ranking: the mean over all pairs of a positive and a negative.

    `loss = 1 / (P N) * sum_(i: y_i = 1) sum_(j: y_j = 0) log(1 + exp(z_j - z_i))`: a smooth AUC
    within the request. The choice where a request has several positives and the whole order counts,
    not only its top. Computes `(B, T, T)` numbers; with thousands of candidates prefer the softmax.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.

    Returns:
        `(B,)`; 0 for a request without a positive or without a negative. Divide their sum by that
        of `comparable_requests`.

    Source:
        Rendle et al. 2009, BPR: Bayesian Personalized Ranking from Implicit Feedback,
        arXiv 1205.2618.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import bpr_loss
    >>> labels, mask = np.array([[1.0, 0.0, 0.0]]), np.array([[1, 1, 0]])
    >>> np.round(bpr_loss(labels, np.zeros((1, 3)), mask), 3).tolist()
    [0.693]
    """
    known, labels, logits = _known(labels, logits, mask)
    positive = labels * ops.cast(known, labels.dtype)
    negative = (1 - labels) * ops.cast(known, labels.dtype)
    pairs = positive[..., :, None] * negative[..., None, :]
    losses = ops.softplus(logits[..., None, :] - logits[..., :, None])
    count = ops.sum(positive, axis=-1) * ops.sum(negative, axis=-1)
    return ops.sum(pairs * losses, axis=(-2, -1)) / ops.maximum(count, 1)


def list_mle_loss(labels: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    """ListMLE: the negative log-likelihood that the positives are drawn first, one by one.

    `loss = 1 / P * (sum_(k < P) log(S_0 + (1 - k / P) S_1) - sum_(i: y_i = 1) z_i)`, where `S_1`
    and `S_0` are the sums of `exp(z)` over the P positives and over the negatives. In contrast to
    the softmax, a drawn positive leaves the list: positives compete less with each other.

    The order among the positives is not known. Efron's approximation takes the mean of what is left
    over their orders: the loss is exact for one positive (then it is the softmax) and for positives
    of equal logits, and bounds the mean loss of all orders from above. The order among the
    negatives does not count.

    Args:
        labels: `(B, T)`, 0 or 1.
        logits: `(B, T)`.
        mask: `(B, T)`, 0 or False for padding and unknown labels, which do not count.

    Returns:
        `(B,)`; 0 for a request without a positive or without a negative. Divide their sum by that
        of `comparable_requests`.

    Source:
        Xia et al. 2008, Listwise Approach to Learning to Rank: Theory and Algorithm; Efron 1977,
        The Efficiency of Cox's Likelihood Function for Censored Data.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import list_mle_loss
    >>> labels, mask = np.array([[1.0, 1.0, 0.0]]), np.array([[1, 1, 1]])
    >>> loss = list_mle_loss(labels, np.zeros((1, 3)), mask)
    >>> np.round(loss, 3).tolist()  # (log 3 + log 2) / 2
    [0.896]
    """
    requests = _requests(labels, logits, mask)
    place = ops.cumsum(ops.ones_like(requests.logits), axis=-1) - 1
    remaining_share = 1 - place / requests.positives[..., None]
    drawn = remaining_share > 0
    total = requests.of_negatives[..., None] + remaining_share * requests.of_positives[..., None]
    logs = ops.sum(ops.log(ops.where(drawn, total, 1.0)), axis=-1)
    return _over_positives(requests, logs)


def known_candidates(labels: Tensor, mask: Tensor) -> Tensor:
    """Number of candidates of each request that count, `(B,)`."""
    return ops.sum(ops.cast(ops.cast(mask, "bool"), "float32"), axis=-1)


def comparable_requests(labels: Tensor, mask: Tensor) -> Tensor:
    """1 for a request with a positive and a negative, else 0: `(B,)`."""
    known = ops.cast(mask, "bool")
    positive = ops.cast(ops.where(known, labels, 0), "bool")
    negative = ops.logical_and(known, ops.logical_not(positive))
    both = ops.logical_and(ops.any(positive, axis=-1), ops.any(negative, axis=-1))
    return ops.cast(both, "float32")


class TaskLoss(NamedTuple):
    """A loss by requests.

    Attributes:
        of_requests: Maps labels, logits and mask `(B, T)` to `(B,)`.
        counts: Maps labels and mask `(B, T)` to `(B,)`: the number that the loss is divided by.
    """

    of_requests: Callable[[Tensor, Tensor, Tensor], Tensor]
    counts: Callable[[Tensor, Tensor], Tensor]


LOSSES: Mapping[LossName, TaskLoss] = {
    "cross_entropy": TaskLoss(cross_entropy_loss, known_candidates),
    "focal": TaskLoss(focal_loss, known_candidates),
    "jrc": TaskLoss(jrc_loss, known_candidates),
    "softmax": TaskLoss(softmax_loss, comparable_requests),
    "bpr": TaskLoss(bpr_loss, comparable_requests),
    "list_mle": TaskLoss(list_mle_loss, comparable_requests),
}


def task_loss(loss: LossName | LossOptions) -> TaskLoss:
    """Returns a loss with its options.

    Args:
        loss: A name of `LOSSES`, or options of `recsys_attn.loss_options`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.loss_options import Focal
    >>> from recsys_attn.losses import task_loss
    >>> loss = task_loss(Focal(gamma=1.0))
    >>> np.round(loss.of_requests(np.ones((1, 1)), np.zeros((1, 1)), np.ones((1, 1))), 3).tolist()
    [0.347]
    """
    options = dataclasses.asdict(loss_options(loss))
    kind = LOSSES[options.pop("name")]
    return kind._replace(of_requests=partial(kind.of_requests, **options))


class _Requests(NamedTuple):
    """Inputs of the listwise losses. A request that does not count has numbers of 1."""

    is_positive: Tensor  # (B, T), 0 or 1
    logits: Tensor  # (B, T), less the request's largest
    counts: Tensor  # (B,), whether a request counts
    positives: Tensor  # (B,), their number
    of_positives: Tensor  # (B,), their sum of exp(logits)
    of_negatives: Tensor  # (B,)


def _requests(labels: Tensor, logits: Tensor, mask: Tensor) -> _Requests:
    known, labels, logits = _known(labels, logits, mask)
    counts = ops.cast(comparable_requests(labels, known), "bool")
    top = ops.max(ops.where(known, logits, float("-inf")), axis=-1)
    top = ops.stop_gradient(ops.where(counts, top, 0.0))[..., None]
    logits = ops.where(ops.logical_and(known, counts[..., None]), logits - top, 0.0)
    positive = labels * ops.cast(known, labels.dtype)
    weights = ops.exp(logits) * ops.cast(known, logits.dtype)
    of_positives = ops.sum(weights * positive, axis=-1)
    of_negatives = ops.sum(weights * (1 - positive), axis=-1)
    sums = ops.sum(positive, axis=-1), of_positives, of_negatives
    return _Requests(positive, logits, counts, *(ops.where(counts, x, 1.0) for x in sums))


def _over_positives(requests: _Requests, logs: Tensor) -> Tensor:
    """`(logs - sum of the positives' logits) / positives`, 0 for requests that do not count."""
    chosen = ops.sum(requests.logits * requests.is_positive, axis=-1)
    loss = (logs - chosen) / requests.positives
    return ops.where(requests.counts, loss, 0.0)


def _known(labels: Tensor, logits: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mask, labels and logits; labels that do not count become 0 and logits too."""
    known, logits = ops.cast(mask, "bool"), ops.convert_to_tensor(logits)
    return known, ops.cast(ops.where(known, labels, 0), logits.dtype), ops.where(known, logits, 0)
