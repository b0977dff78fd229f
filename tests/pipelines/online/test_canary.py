"""A canary beside the stable version, by the rows of a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from pipelines.experiment.config import Experiment
from pipelines.online.canary import LEVEL, CanaryRows, VersionComparison
from pipelines.report.gate_words import FAILED
from tests.support.served_rows import ServedHours

SINCE = datetime(2026, 11, 29, 7)
Plant = Callable[[ServedHours], None]


def compared(
    hours: ServedHours, experiment: Experiment, folder: Path, since: datetime = SINCE
) -> VersionComparison:
    rows = CanaryRows(hours.write(folder / "rows"), experiment, 7, 8, since)
    comparison = rows.compared(max_degraded=0.01, max_lag=60.0)
    assert rows.labelled() == comparison.canary_rows
    return comparison


def set_in(name: str, value: object, since: int = 0) -> Plant:
    def plant(hours: ServedHours) -> None:
        hours.columns[name][hours.of_canary(since)] = value

    return plant


def shifted(hours: ServedHours) -> None:
    hours.columns["logit"] = hours.columns["logit"] + 0.6 * hours.of_canary()


def noisy(hours: ServedHours) -> None:
    noise = np.random.default_rng(9).normal(0, 1.5, len(hours.columns["logit"]))
    hours.columns["logit"] = hours.columns["logit"] + noise * hours.of_canary()


FAULTS = {
    "missing": set_in("missing", True, since=3),
    "degraded": set_in("state", "degraded", since=4),
    "lag": set_in("lag", 3600.0, since=4),
    "calibration": shifted,
    "auc": noisy,
}


@pytest.mark.parametrize("gate", FAULTS)
def test_planted_fault_fails_its_gate(gate: str, experiment: Experiment, tmp_path: Path) -> None:
    hours = ServedHours(seed=3)
    FAULTS[gate](hours)
    comparison = compared(hours, experiment, tmp_path)
    failed = {one.gate for one in comparison.gates if one.result == FAILED}
    assert gate in failed
    assert comparison.has_failed
    json.dumps([one.entry for one in comparison.gates])  # a line of a history


def test_equal_canary_passes_with_a_gate_of_each_kind(
    experiment: Experiment, tmp_path: Path
) -> None:
    hours = ServedHours(seed=3)
    comparison = compared(hours, experiment, tmp_path)
    assert not comparison.has_failed
    assert comparison.canary_rows == hours.of_canary().sum()
    assert comparison.stable_rows == len(hours.of_canary()) - comparison.canary_rows
    assert {(gate.gate, gate.of) for gate in comparison.gates} == {
        *((metric, task) for metric in ("auc", "gauc", "logloss", "calibration")
          for task in ("click", "conversion")),
        *((gate, feature) for gate in ("missing", "missing_since")
          for feature in ("user_id", "item_id", "price", "clicked_items")),
        ("degraded", None),
        ("lag", None),
    }  # fmt: skip
    np.testing.assert_allclose(sum(gate.level for gate in comparison.gates), LEVEL)


def test_rows_before_the_canary_and_of_other_versions_do_not_count(
    experiment: Experiment, tmp_path: Path
) -> None:
    hours = ServedHours(seed=3)
    expected = compared(hours, experiment, tmp_path, SINCE.replace(hour=9))
    other = dataclasses.replace(hours)
    early = other.columns["hour"] < 2
    other.columns["version"][early & (np.arange(early.size) % 2 == 0)] = 6
    other.columns["label"][early] = True
    assert compared(other, experiment, tmp_path, SINCE.replace(hour=9)) == expected


def test_few_rows_of_a_canary_are_not_decided(experiment: Experiment, tmp_path: Path) -> None:
    hours = ServedHours(seed=3, share=0.01)
    set_in("missing", True)(hours)
    comparison = compared(hours, experiment, tmp_path)
    assert not comparison.has_failed
