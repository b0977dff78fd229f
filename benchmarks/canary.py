"""Canaries that are rolled back: equal ones by chance, and those with a planted fault.

    python -m benchmarks.canary
    python -m benchmarks.canary --equal 1000 --faulty 100 --rows 5000,20000,80000

Users click on 5 candidates of a request, some more often than others; the model knows a part of
why. Two versions share the requests by chance, the canary one in five, and each fault is of the
canary alone: a feature that is missing since noon (hour 6 of 12), scores that are too high, noise
in the scores that costs AUC and leaves them calibrated, a state that stands still since noon. The
table has the share of canaries that the gates of `pipelines.online.canary` refuse, by the number of
the canary's labelled rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.shared.command_line import several
from pipelines.metrics import auc
from pipelines.online.canary import decided
from pipelines.online.canary_gate import CanaryGate
from pipelines.online.cells import StoreAnswers
from pipelines.online.metric_gates import TwoVersions
from pipelines.online.missing_gates import Hours
from pipelines.online.missing_sums import MissingSums, sums_of
from pipelines.report.gate_words import FAILED

CANDIDATES, HOURS, NOON, SHARE = 5, 12, 6, 0.2
MISSING = {"country": 0.0, "price": 0.02, "last_click": 0.3, "history": 0.45, "coupon": 0.97}
_SEEN, _HIDDEN, _RATE = 0.8, 0.5, -2.0  # logit: deviation that the model knows, that of users, mean
_MAX_LAG, _MAX_DEGRADED = 300.0, 0.01


@dataclass(frozen=True)
class Fault:
    """A fault of a canary.

    Attributes:
        name: The fault in words.
        times: Factor of the scores.
        noise: Deviation of noise in the known part of the logit.
        missing: Share of the values of `price` that are missing since noon.
        stale: Share of the answers since noon that have a state of an hour before.
    """

    name: str
    times: float = 1.0
    noise: float = 0.0
    missing: float = 0.0
    stale: float = 0.0


EQUAL = Fault("none: an equal canary")


class World:
    """The requests of two versions and their outcomes.

    Args:
        rows: Labelled rows of the canary, about.
        fault: Its fault.
        seed: Seed of all draws.
    """

    def __init__(self, rows: int, fault: Fault, seed: int) -> None:
        self._rng = rng = np.random.default_rng(seed)
        self._fault = fault
        requests = int(rows / SHARE / CANDIDATES)
        users = max(50, requests // 8)
        activity = rng.pareto(1.5, users) + 1
        self._users = rng.choice(users, requests, p=activity / activity.sum())
        self._hours = np.sort(rng.integers(0, HOURS, requests))
        self._is_canary = rng.random(requests) < SHARE
        self._tastes = rng.normal(0, _HIDDEN, users)

    def gates(self) -> list[CanaryGate]:
        """The decided gates."""
        rows = TwoVersions(
            *self._clicks(), self._spread(self._users), self._spread(self._is_canary)
        )
        tasks, missing = {"click": rows}, self._missing()
        return list(decided(tasks, missing, self._answers(), _MAX_DEGRADED, _MAX_LAG))

    def _clicks(self) -> tuple[np.ndarray, np.ndarray]:
        rng, fault = self._rng, self._fault
        count = self._users.size * CANDIDATES
        known = rng.normal(0, _SEEN, count)
        logit = _RATE + known + self._spread(self._tastes[self._users])
        labels = (rng.random(count) < _sigmoid(logit)).astype(np.float32)
        canary = self._spread(self._is_canary)
        # The mean of the known part, if its noisy value is known.
        weight = _SEEN**2 / (_SEEN**2 + fault.noise**2)
        noisy = weight * (known + rng.normal(0, 1, count) * fault.noise)
        lost = np.where(canary, _SEEN**2 * (1 - weight), 0.0)
        scores = _mean_sigmoid(_RATE + np.where(canary, noisy, known), lost + _HIDDEN**2)
        return labels, np.minimum(np.where(canary, scores * fault.times, scores), 1.0)

    def _missing(self) -> Mapping[str, Hours]:
        rng = self._rng
        by_feature: dict[str, dict[str, tuple[MissingSums, MissingSums]]]
        by_feature = {name: {} for name in MISSING}
        for hour in range(HOURS):
            inside = self._spread(self._hours == hour)
            canary = self._spread(self._is_canary)[inside]
            _, users = np.unique(self._spread(self._users)[inside], return_inverse=True)
            absent = {name: rng.random(canary.size) < share for name, share in MISSING.items()}
            if hour >= NOON:
                absent["price"] |= canary & (rng.random(canary.size) < self._fault.missing)
            masks = ((slice(None), name, mask) for name, mask in absent.items())
            for name, sums in sums_of(masks, users, canary).items():
                by_feature[name][f"{hour:02}:00"] = sums
        return by_feature

    def _answers(self) -> StoreAnswers:
        rng, answers = self._rng, StoreAnswers()
        hours = self._hours[self._is_canary]
        is_stale = (hours >= NOON) & (rng.random(hours.size) < self._fault.stale)
        lags = rng.exponential(1.0, hours.size) + 3600 * is_stale
        answers.add(pa.chunked_array([pa.array(["answered"] * hours.size)]), lags)
        return answers

    def _spread(self, of_requests: np.ndarray) -> np.ndarray:
        return np.repeat(of_requests, CANDIDATES)


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit))


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def _mean_sigmoid(logit: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The mean of `sigmoid(logit + a normal number of this variance)`."""
    deviation = np.sqrt(variance)
    parts = (w * _sigmoid(logit + deviation * x) for x, w in zip(_NODES, _WEIGHTS, strict=True))
    return sum(parts) / _WEIGHTS.sum()


def noise_for(loss: float) -> float:
    """The noise that costs so much AUC, measured on five million rows."""
    rng = np.random.default_rng(0)
    known, noise = rng.normal(0, _SEEN, 5_000_000), rng.normal(0, 1, 5_000_000)
    logit = _RATE + known + rng.normal(0, _HIDDEN, known.size)
    labels = rng.random(known.size) < _sigmoid(logit)
    best, low, high = auc(labels, known), 0.0, 2.0
    for _ in range(12):
        middle = (low + high) / 2
        is_too_small = best - auc(labels, known + middle * noise) < loss
        low, high = (middle, high) if is_too_small else (low, middle)
    return high


def faults() -> list[Fault]:
    """The planted faults."""
    return [
        Fault("a feature missing since noon", missing=1.0),
        Fault("one in ten of its values missing since noon", missing=0.1),
        Fault("scores 10 % too high", times=1.1),
        Fault("scores 20 % too high", times=1.2),
        Fault("AUC lower by 0.005", noise=noise_for(0.005)),
        Fault("AUC lower by 0.01", noise=noise_for(0.01)),
        Fault("a state that stands still since noon", stale=1.0),
        Fault("one replica in twenty with such a state", stale=0.05),
    ]


def refused(fault: Fault, rows: int, canaries: int, seed: int) -> int:
    """The number of canaries that the gates refuse."""
    worlds = (World(rows, fault, seed + number) for number in range(canaries))
    return sum(any(gate.result == FAILED for gate in world.gates()) for world in worlds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    several(parser, "--rows", "5000,20000", int, "Labelled rows of the canary")
    parser.add_argument("--equal", type=int, default=100, help="Equal canaries")
    parser.add_argument("--faulty", type=int, default=20, help="Canaries of each fault")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the first canary")
    options = parser.parse_args(arguments)
    table = Table(title="canaries rolled back, in %", title_justify="left", box=None)
    table.add_column("fault")
    table.add_column("canaries", justify="right")
    for rows in options.rows:
        table.add_column(f"{rows:,} rows", justify="right")
    for fault in (EQUAL, *faults()):
        canaries = options.equal if fault is EQUAL else options.faulty
        shares = [refused(fault, n, canaries, options.seed) / canaries for n in options.rows]
        table.add_row(fault.name, f"{canaries:,}", *(f"{100 * share:.1f}" for share in shares))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
