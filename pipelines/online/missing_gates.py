"""Gates of a canary's missing values, hour by hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.online.canary_gate import CanaryGate, result_of, z_of
from pipelines.online.missing_sums import Excess, MissingSums, excess
from pipelines.report.gate_words import UNDECIDED
from pipelines.report.numbers import percent

JUMP = 0.2  # more than in any hour before: no time of day explains it
Hours = Mapping[str, tuple[MissingSums, MissingSums]]  # of the stable version and of the canary
Tests = Mapping[str, Excess]


def missing_gates(feature: str, hours: Hours, level: float) -> Iterator[CanaryGate]:
    """Decides the two gates of a feature, each in the hour that says most against the canary.

    `missing`: no more values are missing than of the stable version in the same hour.
    `missing_since`: no more values are missing than of the canary in the hour before with most of
    them, and 20 points.

    Args:
        feature: The feature.
        hours: The sums of both versions by hour, the earliest first.
        level: The probability that chance alone makes one gate of an equal canary fail, all hours
            together.
    """
    beside, before = {}, {}
    highest: MissingSums | None = None
    for hour, (stable, canary) in hours.items():
        beside[hour] = excess(canary, stable)
        if highest is not None:
            before[hour] = excess(canary, highest)
        if not canary.are_few and (highest is None or canary.share > highest.share):
            highest = canary
    yield _worst("missing", feature, beside, 0.0, level, "of the stable version")
    yield _worst("missing_since", feature, before, JUMP, level, "at most in an hour before")


def _worst(
    gate: str,
    feature: str,
    by_hour: Mapping[str, Excess | None],
    limit: float,
    level: float,
    other: str,
) -> CanaryGate:
    tests = {hour: test for hour, test in by_hour.items() if test is not None}
    if not tests:
        words = f"{feature}: too few users in each hour to compare missing values."
        return CanaryGate(gate, feature, None, None, None, None, limit, level, UNDECIDED, words)
    z = z_of(level / len(tests))
    hour = max(tests, key=lambda name: tests[name].ends(z)[0])
    worst = tests[hour]
    ends = worst.ends(z)
    words = (
        f"{percent(worst.share)} of {feature} missing, {percent(worst.other)} {other}, at {hour}."
    )
    numbers = (worst.share, worst.other, worst.share - worst.other, ends, limit, level)
    return CanaryGate(gate, feature, *numbers, result_of(ends, limit), words)
