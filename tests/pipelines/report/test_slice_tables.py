"""The worst slices on the console and on the page."""

import io

from rich.console import Console

from pipelines.report.slice_tables import print_slices
from tests.pipelines.report import folders
from tests.pipelines.report.test_html import render

SLICE = {
    "columns": ["device", "hour"],
    "name": "device=[b]tablet[/b], hour=q1",
    "range": "0..4",
    "rows": 12345,
    "positives": 678,
    "found": {
        "excess_logloss_difference": 0.0523,
        "interval": [0.0311, 0.0735],
        "clusters": 50,
    },
    "confirmed": {
        "excess_logloss_difference": 0.0417,
        "interval": [0.0192, 0.0642],
        "clusters": 49,
        "p": 0.0003,
    },
    "p_adjusted": 0.0061,
    "calibration": 0.8123,
}


def slices(*reported, searched=321):
    found = {"columns": ["device", "hour"], "searched": searched, "tested": min(searched, 20)}
    return found | {"reported": list(reported)}


def printed(found):
    console = Console(file=io.StringIO(), width=80)
    print_slices(console, {"tasks": {"click": {"slices": found}, "buy": {}}})
    return console.file.getvalue()


def test_confirmed_slices_fit_the_console():
    lines = printed(slices(SLICE)).splitlines()
    assert lines[0] == "click: 321 slices searched, 20 tested, 1 confirmed."
    assert " ".join(lines[1].split()) == "slice rows positives excess to rest 95 % calibration"
    numbers = ["12,345", "678", "+0.0417", "+0.0192", "to", "+0.0642", "0.812"]
    assert lines[2].split()[1:] == numbers
    assert lines[2].startswith("device=[b]tablet")
    assert max(map(len, lines)) <= 80


def test_a_search_without_a_result_says_so():
    assert "321 slices searched, 20 tested, none confirmed" in printed(slices())
    assert "none was searched" in printed(slices(searched=0))


def test_the_page_has_the_confirmed_slices(tmp_path):
    metrics = folders.metrics()
    metrics["tasks"]["click"]["slices"] = slices(SLICE)
    metrics["tasks"]["conversion"]["slices"] = slices()
    page = render(tmp_path, metrics)
    head, row = page.tables["segments slices"]
    assert len(head) == len(row)
    assert row == [
        "device=[b]tablet[/b], hour=q1 (0..4)",
        "12,345 678 positive",
        "+0.0417 +0.0192 to +0.0642",
        "<0.001 0.006",
        "0.812",
        "+0.0523 +0.0311 to +0.0735",
    ]
    assert "1 confirmed" in page.html
    assert "none confirmed" in page.html
    assert "Benjamini and Hochberg over all 20" in page.html
