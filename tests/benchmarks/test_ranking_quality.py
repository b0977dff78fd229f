"""The parts of the quality benchmark: earlier counts and weighted AUC, by brute force."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.ranking_quality.drawn_rows import drawn_rows
from benchmarks.ranking_quality.earlier import earlier_counts
from benchmarks.ranking_quality.intervals import Predictions, draws
from pipelines.metrics import auc, logloss

RNG = np.random.default_rng(0)


def test_earlier_counts_are_those_of_a_loop() -> None:
    key, time = RNG.integers(0, 5, 200), RNG.integers(0, 30, 200)
    label = RNG.choice([0.0, 1.0, np.nan], 200)
    positive, rows = earlier_counts(key, time, label)
    for row in range(200):
        before = (key == key[row]) & (time < time[row]) & ~np.isnan(label)
        assert rows[row] == before.sum()
        assert positive[row] == label[before].sum()


def test_weights_count_as_repeated_rows() -> None:
    label, score = RNG.integers(0, 2, 300), RNG.integers(0, 40, 300) / 40
    found = Predictions(label, score, RNG.integers(0, 20, 300), np.arange(300))
    weight = draws(found.group)[0]
    again = np.repeat(np.arange(300), weight.astype(int))
    np.testing.assert_allclose(found.auc(weight), auc(label[again], score[again]))
    clipped = np.clip(score, 1e-7, 1 - 1e-7)
    np.testing.assert_allclose(found.logloss(weight), logloss(label[again], clipped[again]))


def test_draws_are_of_whole_groups() -> None:
    group = RNG.integers(0, 20, 300)
    for weight in draws(group)[:5]:
        assert all(len(set(weight[group == number])) == 1 for number in range(20))


def test_each_event_is_shown_among_other_items() -> None:
    events = pa.table(
        {
            "user": RNG.integers(0, 5, 50),
            "item": RNG.integers(0, 4, 50),
            "time": np.arange(50)[::-1],
            "action": RNG.choice(["view", "cart", "buy"], 50),
        }
    )
    rows = drawn_rows(events).to_pylist()
    shown = [row for row in rows if row["viewed"] == 1]
    expected = events.sort_by("time").to_pylist()
    assert [row["impression"] for row in shown] == list(range(50))
    for row, event in zip(shown, expected, strict=True):
        assert [row[name] for name in ("user", "item", "time")] == list(event.values())[:3]
        assert row["carted"] == (event["action"] in ("cart", "buy"))
    others = [row for row in rows if row["viewed"] == 0]
    assert len(others) == 100
    for row in others:
        assert row["item"] != shown[row["impression"]]["item"]
        assert row["carted"] is None
