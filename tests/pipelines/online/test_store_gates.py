"""Gates of a store's answers: their limits, beyond chance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.online.cells import StoreAnswers
from pipelines.online.store_gates import store_gates
from pipelines.report.gate_words import FAILED, PASSED


def answers(degraded: int, late: int, count: int = 1000, stored: bool = True) -> StoreAnswers:
    states = ["degraded"] * degraded + ["answered"] * (count - degraded)
    lags = np.where(np.arange(count) < late, 500.0, 1.0)
    store = StoreAnswers()
    store.add(pa.chunked_array([pa.array(states if stored else [None] * count, pa.string())]), lags)
    return store


def results(of: StoreAnswers) -> dict[str, str]:
    return {gate.gate: gate.result for gate in store_gates(of, 0.02, 300.0, 1e-3)}


def test_limits_hold_beyond_chance() -> None:
    # Chance gives 20 degraded and 10 late answers at the limits, and 37 and 22 once in 1,000 times.
    assert results(answers(30, 18)) == {"degraded": PASSED, "lag": PASSED}
    assert results(answers(45, 18)) == {"degraded": FAILED, "lag": PASSED}
    assert results(answers(30, 30)) == {"degraded": PASSED, "lag": FAILED}


def test_words_name_number_and_limit() -> None:
    degraded, lag = store_gates(answers(45, 30), 0.02, 300.0, 1e-3)
    assert degraded.words == "4.5% of the answers are degraded, 2% allowed."
    assert lag.words == "The state of 99 % of the answers is at most 500.0 s behind, 300 s allowed."


def test_answers_without_a_store_have_no_gate_of_degraded_ones() -> None:
    assert set(results(answers(0, 0, stored=False))) == {"lag"}
    assert results(StoreAnswers()) == {}
