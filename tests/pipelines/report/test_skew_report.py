"""The page and the table of drift and skew."""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.report import print_skew, write_skew_report
from pipelines.report.skew_plots import shown_bins

BINS = [
    {"name": "missing", "reference": 0.25, "served": 0.5},
    {"name": "a<b> $x$", "reference": 0.75, "served": 0.5},
]
DISTANCE = {"psi": 0.3, "chance": 0.01, "js": 0.05, "status": "shifted", "bins": BINS}
QUANTILES = dict.fromkeys(("mean", "min", "p01", "p10", "p50", "p90", "p99", "max"), 2.5)
PAIR = {"reference": 0.25, "served": 0.5}
NOTHING = {"reference": None, "served": None}


def feature(status: str, **changes: Any) -> dict[str, Any]:
    parts = {"missing": PAIR, "unknown": None, "quantiles": None, "lengths": None}
    kind = {"kind": "categorical", "side": "context"}
    return {**kind, **DISTANCE, **parts, "status": status, **changes}


def period(begin: str) -> dict[str, Any]:
    features = {name: {"psi": 0.1, "status": "watch"} for name in ("calm", "moved", "list")}
    return {
        "begin": begin,
        "rows": 5,
        "features": features,
        "tasks": {"click": {"psi": 0.1, "mean": 0.5}, "buy": {"psi": None, "mean": None}},
    }


def found(**changes: Any) -> dict[str, Any]:
    lengths = {**DISTANCE, "psi": 0.9, "reference": QUANTILES, "served": None}
    unscored = {"psi": None, "chance": None, "js": None, "status": None, "bins": []}
    task = {"rows": 5, "mean": PAIR, "label_rate": 0.2, "quantiles": NOTHING}
    where = {"request_id": "<r7>", "version": 3, "candidate": 2, "logged": 0.5, "recomputed": 0.25}
    of_click = {"rows": 1234, "over": 7, "max_abs_difference": 0.25, "where": where}
    numbers = {"reference": QUANTILES, "served": QUANTILES}
    return {
        "log": "logs",
        "model": "shop",
        "reference": "the train split",
        "score_reference": "the evaluation",
        "first": "2026-03-01",
        "last": "2026-03-02",
        "calls": [{"method": "Predict", "signature": "rank", "version": 3, "calls": 1000}],
        "rows": 5432,
        "unreadable": {"input 'x' is missing": 11},
        "features": {
            "calm": feature("stable", psi=0.01, quantiles=numbers),
            "moved": feature("shifted", unknown=PAIR),
            "list": feature("watch", lengths=lengths),
        },
        "tasks": {
            "click": {**task, **DISTANCE},
            "buy": {**task, **unscored, "mean": NOTHING, "label_rate": None},
        },
        "shifted": ["moved"],
        "period": "day",
        "periods": [period("2026-03-01"), period("2026-03-02")],
        "recomputed": {
            "calls": 200,
            "rows": 1234,
            "tolerance": 1e-5,
            "tasks": {"click": of_click},
            "note": None,
            "max_abs_difference": 0.25,
            "over": 7,
        },
        "notes": ["A log has no labels."],
        "state": None,
        **changes,
    }


def page(folder: Path, **changes: Any) -> str:
    write_skew_report(found(**changes), "shop & co", folder / "skew.html")
    return (folder / "skew.html").read_text(encoding="utf-8")


def test_the_page_shows_what_was_found_and_escapes_it(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert "shop &amp; co: drift and skew" in html
    assert "&lt;r7&gt;, candidate 2" in html
    assert "<b> $x$" not in html
    assert "11 calls are left out: input &#39;x&#39; is missing." in html
    titles = re.findall(r"<h3>(.*?)</h3>\n<svg", html)
    scores = ["click", "click, over time", "buy, over time"]
    assert titles == [*scores, "Features that moved most", "moved", "list", "list, lengths", "calm"]
    rows = re.findall(r'<tr class="(\w+)"><th scope="row">(.*?)</th>', html)
    assert rows == [
        ("shifted", "moved"),
        ("watch", "list"),
        ("shifted", "list, lengths"),
        ("stable", "calm"),
    ]
    assert page(tmp_path) == html  # byte for byte


def test_page_without_drift_and_recomputed_scores(tmp_path: Path) -> None:
    nothing = {**found()["recomputed"], "note": "No score was computed again.", "tasks": {}}
    html = page(tmp_path, periods=[period("2026-03-01")], recomputed=nothing)
    assert "Over time" not in html
    assert "No score was computed again." in html
    assert "<h2>Scores computed again</h2>" not in html

    broken = found()["recomputed"]
    broken["tasks"]["click"] |= {"max_abs_difference": float("inf")}
    for worst in (None, float("inf")):
        assert "inf" in page(tmp_path, recomputed={**broken, "max_abs_difference": worst})


def printed(**changes: Any) -> list[str]:
    file = io.StringIO()
    print_skew(Console(file=file, width=80), found(**changes))
    return file.getvalue().splitlines()


def test_the_table_has_a_line_each_and_fits_a_terminal() -> None:
    lines = printed()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("shop: 1,000 calls, 5,432 rows against the train split")
    assert [line.split()[:3] for line in lines[2:7]] == [
        ["moved", "shifted", "0.300"],
        ["list", "watch", "0.900"],
        ["calm", "stable", "0.010"],
        ["score", "of", "click"],
        ["score", "of", "buy"],
    ]
    assert "25% > 50%" in lines[2]
    assert lines[7] == (
        "  1,234 rows of 200 calls scored again: largest difference 2.5e-01, 7 over 1e-05"
    )
    assert lines[8] == "  11 calls left out: input 'x' is missing"


def test_only_the_largest_bins_are_drawn_in_their_order() -> None:
    bins = [{"name": str(i), "reference": i % 7 / 100, "served": 0.0} for i in range(40)]
    shown = [int(part["name"]) for part in shown_bins(bins)]
    assert len(shown) == 14
    assert shown == sorted(shown)
    assert min(i % 7 for i in shown) == 4


def test_values_of_the_store_have_a_section(tmp_path: Path) -> None:
    equal = {"rows": 8, "equal": 8, "missing": 0, "extra": 0, "different": 0, "where": ""}
    numbers = {"largest": 0.0, "inserts": None, "deletes": None}
    lists = {"equal": 2, "missing": 6, "where": "<r1>", "inserts": 0, "deletes": 1234}
    state = {
        "events": "events",
        "users": 3,
        "requests": 8,
        "replayed": 4321,
        "late": 0,
        "left_out": {"no value came from a store": 5},
        "columns": {"ctr": equal | numbers, "clicked": equal | numbers | lists},
        "unequal": 6,
        "notes": ["7 counts lack events."],
    }
    assert "Values of the store" not in page(tmp_path)
    html = page(tmp_path, state=state)
    section = html.partition("<h2>Values of the store</h2>")[2].partition("</section>")[0]
    assert "8 requests of 3 users against 4,321 events of events." in section
    assert re.findall(r'<th scope="row">(.*?)</th><td>8</td><td>(.*?)</td>', section) == [
        ("clicked", "25%"),
        ("ctr", "100%"),
    ]
    for text in ("7 counts lack events.", "&lt;r1&gt;", "1,234", "5 not compared: no value came"):
        assert text in section
    console = Console(file=io.StringIO(), width=120)
    print_skew(console, found(state=state))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("clicked", "25%", "75%", "1,234", "7 counts lack events.", "5 not compared"):
        assert text in printed
