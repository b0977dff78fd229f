"""Segments on the console and on the page."""

import io

import numpy as np
import pytest
from rich.console import Console

from pipelines.metrics.segment_metrics import SegmentMetrics
from pipelines.report.segment_tables import mark, print_segments
from tests.pipelines.report import folders
from tests.pipelines.report.test_html import render

NAMES = ("device=tablet", "device=phone", "country=[b]DE[/b]", "hour=q1", "hour=q2", "id=rare")


@pytest.fixture(scope="module")
def metrics():
    """Segments of which the first is worse, and the last small."""
    rng = np.random.default_rng(1)
    place = np.minimum(np.arange(12_000) // 2000, 5)
    place[-1900:] = 4
    scores = rng.uniform(0.05, 0.6, 12_000)
    chance = np.where(place == 0, 0.3, scores)
    labels = (rng.random(12_000) < chance).astype(float)
    found = SegmentMetrics(labels, scores, np.arange(12_000) % 997)
    segments = [
        {
            "columns": [name.partition("=")[0]],
            "name": name,
            "range": "0..7" if "q" in name else "",
            **found.of(place == number),
        }
        for number, name in enumerate(NAMES)
    ]
    whole = folders.metrics()
    whole["tasks"]["click"]["segments"] = segments
    whole["tasks"]["conversion"]["segments"] = []
    return whole


def test_the_worst_segments_fit_the_console(metrics):
    console = Console(file=io.StringIO(), width=80)
    print_segments(console, metrics)
    title, head, *lines = console.file.getvalue().splitlines()
    assert title.strip() == "click: worst of 6 segments; * differs from the other rows"
    expected = "segment rows AUC to rest ±95% logloss excess calibration"
    assert head.split() == expected.split()
    assert len(lines) <= 5 + 1  # a name may take two lines
    assert max(map(len, [title, head, *lines])) <= 80
    tablet = metrics["tasks"]["click"]["segments"][0]
    numbers = lines[0].split()
    assert numbers[:3] == ["device=tablet", "2,000", f"{tablet['auc']:.4f}"]
    assert numbers[3] == f"{tablet['auc_difference']:+.4f}*"
    assert not any("id=rare" in line for line in lines)  # its interval does not hold
    assert any("[b]DE[/b]" in line for line in lines)
    metrics = {"tasks": {"click": {"segments": metrics["tasks"]["click"]["segments"][-1:]}}}
    print_segments(console, metrics)
    assert "100 few" in console.file.getvalue()


def test_the_page_has_every_segment_with_its_mark(metrics, tmp_path):
    page = render(tmp_path, metrics)
    head, *rows = page.tables["segments"]
    names = [*NAMES[:3], "hour=q1 (0..7)", "hour=q2 (0..7)", "id=rare"]
    assert all(row[0].startswith(name) for row, name in zip(rows, names, strict=True))
    assert all(len(row) == len(head) == 7 for row in rows)
    assert [rows[0][0].split()[-1], rows[-1][0]] == ["worse", "id=rare few"]
    for row, found in zip(rows, metrics["tasks"]["click"]["segments"], strict=True):
        low, high = found["intervals"]["auc_difference"]
        star = "*" if not found["few"] and (low > 0 or high < 0) else ""
        assert row[1] == f"{found['rows']:,} {found['positives']:,} positive"
        assert row[2].startswith(f"{found['auc']:.4f}")
        assert row[3] == f"{found['auc_difference']:+.4f}{star} {low:+.4f} to {high:+.4f}"
    assert "conversion" in page.sections


@pytest.mark.parametrize(
    ("auc", "excess", "difference", "expected"),
    [
        (-1, 0.05, 0.05, "worse"),
        (1, 0.05, 0.05, "better"),  # by AUC
        (0, 0.05, 0.04, "worse"),
        (0, 0.01, -0.04, "better"),
        (0, -0.05, -0.05, "worse"),  # predicted too high
        (0, -0.01, 0.06, "better"),
    ],
)
def test_an_excess_further_from_zero_is_worse(auc, excess, difference, expected):
    intervals = {
        "auc_difference": [auc - 0.5, auc + 0.5],
        "excess_logloss_difference": [difference - 0.01, difference + 0.01],
    }
    found = {
        "few": False,
        "auc_difference": auc,
        "excess_logloss": excess,
        "excess_logloss_difference": difference,
        "intervals": intervals,
    }
    assert mark(found) == expected
    assert mark(found | {"few": True}) == "few"
