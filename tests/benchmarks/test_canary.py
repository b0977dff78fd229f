"""Of 100 equal canaries at most 5 are rolled back, and planted faults are found."""

from __future__ import annotations

import pytest

from benchmarks.canary import EQUAL, Fault, refused


def test_of_100_equal_canaries_at_most_5_are_rolled_back() -> None:
    assert refused(EQUAL, rows=2000, canaries=100, seed=0) <= 5


@pytest.mark.parametrize(
    "fault",
    [
        Fault("missing", missing=1.0),
        Fault("too high", times=1.5),
        Fault("noise", noise=1.5),
        Fault("stale", stale=1.0),
    ],
    ids=lambda fault: fault.name,
)
def test_large_faults_are_found(fault: Fault) -> None:
    assert refused(fault, rows=5000, canaries=3, seed=0) == 3
