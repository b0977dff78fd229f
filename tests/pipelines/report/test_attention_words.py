"""Attention in the report: heads, sentences, pictures and warnings."""

import copy
import io

import pytest
from rich.console import Console

from pipelines.report.attention_words import print_attention
from pipelines.report.html import write_report
from tests.pipelines.report import folders, pages


def head(lost, alike=None, redundant=False, **more):
    return {
        "lost": {"click": lost, "conversion": None},
        "alike": alike,
        "redundant": redundant,
        **more,
    }


def weighed(functions):
    named = [{"name": name, "measured": 0.9, "learned": learned} for name, learned in functions]
    return {"confidence": [0.37, 0.3, 0.4], "uniform": 0.14, "functions": named}


def part(name, events, weight, lift):
    return {"name": name, "events": events, "weight": weight, "lift": lift}


PLACES = [
    {
        "place": "target attention of clicks",
        "kind": "target_attention",
        "heads": [head([0.0712, 0.0523, 0.0904], **weighed([("same item", True)]))],
        "events": [
            part("latest event", 0.14, [0.2, 0.1, 0.3], [1.4, 1.2, 2]),
            part("same item", 0.02, [0.1, 0, 0.2], [4.5, 4.1, 4.9]),
        ],
    },
    {
        "place": "interaction 1",
        "kind": "interaction",
        "heads": [
            head([-0.001, -0.004, 0.002], [1, 0.9512], True, **weighed([("diffuse", False)])),
            head([0.0123, 0.0101, 0.0145], [0, 0.9512], **weighed([])),
        ],
        "fields": ["item", "<age>"],
        "map": [[[0.25, 0.75], [0.5, 0.5]], [[0.6, 0.4], [None, None]]],
        "agreement": {"click": 0.31, "conversion": None},
    },
    {"place": "gate", "kind": "gate", "heads": [head(None)]},
]
FOUND = {
    "requests": 211,
    "rows": 1003,
    "places": PLACES,
    "pairs": [
        {"features": ["item", "<age>"], "strength": {"click": [0.25, 0.16, 0.36]}},
        {"features": ["item", "clicks"], "strength": {"click": [0.01, -0.01, 0.04]}},
    ],
    "experts": {
        "tasks": {
            "click": {
                "shares": [[0.7, 0.6, 0.8], [0.3, 0.2, 0.4]],
                "first": [0.9, 0.1],
                "spread": 0.88,
                "variation": 0.13,
                "segments": {"device=phone": [0.75, 0.25]},
            }
        },
        "apart": [["click", "conversion", 0.23]],
        "warnings": ["Expert 3 has died."],
    },
}


@pytest.fixture(scope="module")
def metrics():
    return folders.metrics() | {"attention": FOUND}


@pytest.fixture(scope="module")
def page(metrics, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    write_report(folders.write(folder, metrics, folders.columns()), folder / "report.html")
    return pages.Page((folder / "report.html").read_text("utf-8"))


def test_each_head_has_a_line(page):
    assert page.tables["heads"][1:] == [
        [
            "target attention of clicks",
            "0.37 of 0.14",
            "same item",
            "—",
            "+0.0712 +0.0523 to +0.0904",
            "—",
        ],
        [
            "interaction 1, head 1",
            "0.37 of 0.14",
            "diffuse (as untrained)",
            "0.95 (head 2), redundant",
            "-0.0010 -0.0040 to +0.0020",
            "—",
        ],
        [
            "interaction 1, head 2",
            "0.37 of 0.14",
            "—",
            "0.95 (head 1)",
            "+0.0123 +0.0101 to +0.0145",
            "—",
        ],
    ]


def test_sentences_say_what_to_believe(page):
    text = page.sections["Attention"].text
    assert "interaction in click have the rank correlation 0.31; do not read" in text
    assert "Expert 3 has died." in text
    assert "differ by 23% of their shares" in text


def test_pictures_have_their_numbers(page):
    assert page.sections["Attention"].pictures == [
        "Interactions, click",
        "Events, target attention of clicks",
        "Attention of fields, interaction 1, head 1",
        "Attention of fields, interaction 1, head 2",
        "Experts",
    ]
    assert page.points["Interactions, click"][1] == ["item", "<age>", "0.5000", "0.4000", "0.6000"]
    assert page.points["Events, target attention of clicks"][2][:4] == [
        "same item",
        "2%",
        "10%",
        "4.50",
    ]
    of_fields = page.points["Attention of fields, interaction 1, head 2"]
    assert of_fields[2:4] == [["item", "<age>", "40%"], ["<age>", "item", ""]]


def test_the_console_names_warnings_and_redundant_heads(metrics):
    console = Console(width=200, file=io.StringIO())
    print_attention(console, metrics)
    print_attention(console, folders.metrics())
    text = console.file.getvalue()
    assert "experts: Expert 3 has died." in text
    assert "heads: interaction 1, head 1: outputs like those of another head" in text
    assert text.count("\n") == 2


def test_unknown_intervals_are_dashes_or_left_out(metrics, tmp_path):
    """One user alone has no interval."""
    found = copy.deepcopy(FOUND)
    found["places"][0]["events"][1]["lift"] = [4.5, None, None]
    found["pairs"][0]["strength"]["click"] = [0.25, None, None]
    found["experts"]["tasks"]["click"]["shares"] = [[0.7, None, None], [0.3, None, None]]
    metrics = {**metrics, "attention": found}
    write_report(folders.write(tmp_path, metrics, folders.columns()), tmp_path / "report.html")
    page = pages.Page((tmp_path / "report.html").read_text("utf-8"))
    assert page.points["Interactions, click"][1] == ["item", "<age>", "0.5000", "", ""]
    events = page.points["Events, target attention of clicks"]
    assert events[2] == ["same item", "2%", "10%", "4.50", "—", "—"]
    assert page.points["Experts"][1][:5] == ["click", "1", "70%", "—", "—"]
