"""The sample: the share asked for, the same on every server, nested in a larger one."""

from __future__ import annotations

import math

import pytest

from serving.observability.prediction_log.sampling import Sample

IDS = [f"request-{number}" for number in range(10_007)]


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.37, 1.0])
def test_the_share_is_the_rate(rate: float) -> None:
    kept = sum(map(Sample(rate, 3).keeps, IDS))
    assert abs(kept - rate * len(IDS)) <= 4 * math.sqrt(len(IDS) * rate * (1 - rate))


def test_servers_of_one_seed_agree_and_a_larger_rate_keeps_those_too() -> None:
    kept = [[name for name in IDS if Sample(0.1, 7).keeps(name)] for _ in range(2)]
    assert kept[0] == kept[1]
    assert all(map(Sample(0.2, 7).keeps, kept[0]))


def test_another_seed_keeps_others() -> None:
    first, second = (set(filter(Sample(0.5, seed).keeps, IDS)) for seed in (0, -1))
    assert 0.2 < len(first & second) / len(IDS) < 0.3


@pytest.mark.parametrize("name", ["", "\u00fcber", "x" * 10_000, "\ud800"])
def test_any_text_is_an_id(name: str) -> None:
    assert Sample(1.0, 0).keeps(name)
    assert not Sample(0.0, 0).keeps(name)
