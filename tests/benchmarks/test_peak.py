"""The peak of a machine, and what is skipped on one that cannot multiply in a precision."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.peers import contenders, peak


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.1, 2 * 2048**3 / 0.1), (1.9, 2 * 2048**3 / 1.9), (2.1, None)]
)
def test_a_precision_whose_product_takes_too_long_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: float | None
) -> None:
    """By a clock that the products alone move: the trial is of 64 times fewer operations."""
    now, sizes = 0.0, []
    monkeypatch.setattr(peak, "time", SimpleNamespace(perf_counter=lambda: now))

    def make(dtype: str, part: int) -> tuple[peak.Product, bool]:
        sizes.append(part)

        def run() -> None:
            nonlocal now
            now += seconds / part**3

        return run, False

    found = peak.peak(make, "bfloat16")
    assert found == (None if expected is None else pytest.approx(expected))
    assert sizes == ([peak.TRIAL] if expected is None else [peak.TRIAL, 1])


def test_each_contender_has_the_framework_whose_peak_it_is_held_against() -> None:
    entries = [contenders.Entry(name, module) for name, module in contenders.PEERS.items()]
    assert {entry.framework for entry in entries} == {"torch"}
    ours = contenders.ours(["tensorflow", "jax", "parquet"], ["float32"], [False], [None])
    assert [entry.framework for entry in ours] == ["tensorflow", "jax", "tensorflow"]
    assert all(hasattr(peak, f"of_{entry.framework}") for entry in [*entries, *ours])
