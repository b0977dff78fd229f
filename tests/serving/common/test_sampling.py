"""The sample: its share, the same on every server, nested in a larger one."""

from __future__ import annotations

import math

import pytest

from serving.common.sampling import is_sampled

IDS = [f"request-{number}" for number in range(10_007)]


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.37, 1.0])
def test_share_is_the_rate(rate: float) -> None:
    kept = sum(is_sampled(name, rate, "log") for name in IDS)
    assert abs(kept - rate * len(IDS)) <= 4 * math.sqrt(len(IDS) * rate * (1 - rate))


def test_larger_sample_contains_the_smaller_one() -> None:
    kept = [name for name in IDS if is_sampled(name, 0.1, "log")]
    assert all(is_sampled(name, 0.2, "log") for name in kept)


def test_other_purpose_samples_other_requests() -> None:
    both = sum(is_sampled(n, 0.5, "log") and is_sampled(n, 0.5, "shadow") for n in IDS)
    assert 0.2 < both / len(IDS) < 0.3


@pytest.mark.parametrize("name", ["", "\u00fcber", "x" * 10_000, "\ud800"])
def test_any_text_is_an_id(name: str) -> None:
    assert is_sampled(name, 1.0, "log")
    assert not is_sampled(name, 0.0, "log")
