"""The losses of a task, by name and with their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from recsys_attn.checks import require_number, unknown_name

LossName = Literal["cross_entropy", "focal", "jrc", "softmax", "bpr", "list_mle"]
RankingName = Literal["softmax", "bpr", "list_mle"]


@dataclass(frozen=True)
class CrossEntropy:
    """Binary cross-entropy, with smoothed labels if wanted.

    Args:
        smoothing: Share by which each label moves to 1/2, from 0 to below 1. Set 0.05 where labels
            are often wrong and logits grow without limit.
    """

    smoothing: float = 0.0
    name: Literal["cross_entropy"] = "cross_entropy"

    has_probabilities: ClassVar[bool] = True
    compares_candidates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_number("smoothing", self.smoothing, least=0, below=1)

    @property
    def needs_calibration(self) -> bool:
        return self.smoothing > 0


@dataclass(frozen=True)
class Focal:
    """Cross-entropy with less weight for candidates that are right already.

    Args:
        gamma: Focus on candidates that are wrong, at least 0: the power of the missing probability
            that multiplies each loss. 0 is cross-entropy; lower it where few labels are certain.
    """

    gamma: float = 2.0
    name: Literal["focal"] = "focal"

    has_probabilities: ClassVar[bool] = True
    compares_candidates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_number("gamma", self.gamma, least=0)

    @property
    def needs_calibration(self) -> bool:
        return self.gamma > 0


@dataclass(frozen=True)
class Jrc:
    """Cross-entropy and the order of a request's candidates (joint ranking and calibration).

    Args:
        alpha: Share of the cross-entropy, above 0 and at most 1, which is cross-entropy alone.
            Lower it where the order counts more than the probability.
    """

    alpha: float = 0.5
    name: Literal["jrc"] = "jrc"

    has_probabilities: ClassVar[bool] = True
    compares_candidates: ClassVar[bool] = True
    needs_calibration: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_number("alpha", self.alpha, above=0, most=1)


@dataclass(frozen=True)
class RankingLoss:
    """A loss that compares the candidates of a request and has no options.

    Args:
        name: The loss.
    """

    name: RankingName

    has_probabilities: ClassVar[bool] = False
    compares_candidates: ClassVar[bool] = True
    needs_calibration: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.name not in get_args(RankingName):
            raise ValueError(f"Unknown `name`. {unknown_name(self.name, get_args(RankingName))}")


LossOptions: TypeAlias = CrossEntropy | Focal | Jrc | RankingLoss
_WITH_OPTIONS: Mapping[str, type[CrossEntropy | Focal | Jrc]] = {
    "cross_entropy": CrossEntropy,
    "focal": Focal,
    "jrc": Jrc,
}


def loss_options(
    loss: LossName | LossOptions | Mapping[str, Any], unknown: str = "Unknown loss"
) -> LossOptions:
    """Returns the options of a loss: those given, or the defaults of a name.

    Args:
        loss: A name, options, or their plain data with a `name`.
        unknown: The beginning of the error for an unknown name.

    Raises:
        ValueError: The name or an option is unknown, or an option out of range.

    >>> from recsys_attn.loss_options import loss_options
    >>> loss_options("focal"), loss_options({"name": "jrc", "alpha": 0.8})
    (Focal(gamma=2.0, name='focal'), Jrc(alpha=0.8, name='jrc'))
    """
    if isinstance(loss, CrossEntropy | Focal | Jrc | RankingLoss):
        return loss
    options = dict(loss) if isinstance(loss, Mapping) else {"name": loss}
    name: Any = options.get("name")
    if name not in get_args(LossName):
        raise ValueError(f"{unknown}. {unknown_name(name, get_args(LossName))}")
    kind: Any = _WITH_OPTIONS.get(name, RankingLoss)
    known = [option.name for option in fields(kind)]
    for option in options:
        if option not in known:
            raise ValueError(f"The loss {name!r} has no such option. {unknown_name(option, known)}")
    return kind(**options)
