"""A gate of a canary: the compared numbers, and what was decided."""

from __future__ import annotations

import dataclasses
from typing import Any

from pipelines.metrics.intervals import NORMAL
from pipelines.report.gate_words import FAILED, PASSED, UNDECIDED

Ends = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class CanaryGate:
    """A decided gate.

    Attributes:
        gate: `"auc"`, `"gauc"`, `"logloss"` or `"calibration"` of a task; `"missing"` or
            `"missing_since"` of a feature; `"degraded"` or `"lag"`.
        of: The task or the feature; None: all answers.
        canary: The number of the canary; None if it is not defined.
        against: The number of the stable version; of `missing_since` that of the canary before,
            and of `degraded` and `lag` the limit.
        difference: By how much the canary is worse.
        interval: The ends of the difference's interval at `level`; None where there is none.
        limit: The largest difference that passes.
        level: The probability that chance alone makes an equal canary fail.
        result: `"passed"`, `"failed"` or `"not decided"`.
        words: The gate in a sentence.
    """

    gate: str
    of: str | None
    canary: float | None
    against: float | None
    difference: float | None
    interval: Ends | None
    limit: float
    level: float
    result: str
    words: str

    @property
    def entry(self) -> dict[str, Any]:
        """The gate as plain data."""
        return dataclasses.asdict(self)


def z_of(level: float) -> float:
    """The number of standard errors that chance exceeds upwards with this probability."""
    return NORMAL.inv_cdf(1 - level)


def result_of(interval: Ends | None, limit: float = 0.0) -> str:
    """Failed if the canary is worse than the limit by more than chance."""
    if interval is None:
        return UNDECIDED
    return FAILED if interval[0] > limit else PASSED
