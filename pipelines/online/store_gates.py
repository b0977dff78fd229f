"""Gates of what a store gave a canary: degraded answers, and the lag of the state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import stats

from pipelines.online.canary_gate import CanaryGate
from pipelines.online.cells import StoreAnswers
from pipelines.report.gate_words import FAILED, PASSED
from pipelines.report.numbers import percent

_LATE = 0.01  # share of the answers that may be of an older state


def store_gates(
    answers: StoreAnswers, max_degraded: float, max_lag: float, level: float
) -> Iterator[CanaryGate]:
    """Decides whether the answers keep their limits, beyond chance.

    Answers without a store have neither gate; those whose lag is not known have none of the lag.

    Args:
        answers: Those of the canary.
        max_degraded: The largest share that may be degraded.
        max_lag: Seconds by which the state of 99 % of the answers may be behind its log.
        level: The probability that chance alone makes a canary at its limit fail.
    """
    if answers.with_store:
        share = answers.degraded / answers.with_store
        result = _result(answers.degraded, answers.with_store, max_degraded, level)
        words = f"{percent(share)} of the answers are degraded, {percent(max_degraded)} allowed."
        numbers = (share, max_degraded, share - max_degraded, None, 0.0, level)
        yield CanaryGate("degraded", None, *numbers, result, words)
    lags = answers.lags
    if lags.size:
        late = int(np.count_nonzero(lags > max_lag))
        high = float(np.quantile(lags, 1 - _LATE))
        result = _result(late, lags.size, _LATE, level)
        words = (
            f"The state of 99 % of the answers is at most {high:,.1f} s behind, "
            f"{max_lag:g} s allowed."
        )
        numbers = (high, max_lag, high - max_lag, None, 0.0, level)
        yield CanaryGate("lag", None, *numbers, result, words)


def _result(wrong: int, answers: int, share: float, level: float) -> str:
    """Failed if chance rarely makes so many answers wrong at this share."""
    return FAILED if stats.binom.sf(wrong - 1, answers, share) < level else PASSED
