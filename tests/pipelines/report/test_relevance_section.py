"""Relevance in the report: table, verdict and pictures."""

import pytest

from pipelines.report import relevance_section
from pipelines.report.html import write_report
from tests.pipelines.report import folders, pages

GOOD, FAIR, POOR = [0.61, 0.57, 0.64], [0.52, 0.47, 0.58], [0.13, 0.02, 0.24]
METHODS = ("gradient_times_input", "integrated_gradients", "attention")


def kind(units, verdict, **sizes):
    methods = ("leave_one_out", *sizes)
    shares = {method: [(i + 1) / 10 for i in range(len(units))] for method in methods}
    curves = {method: [0.1, 0.3, 0.4] for method in (*methods, "random")}
    return {
        "units": units,
        "count": [400] * len(units),
        "shares": shares,
        "means": {method: [-0.25] * len(units) for method in methods},
        "removed": [0.2, 0.5, 0.8],
        "curves": curves,
        "ordered_rows": 397,
        "methods": {
            name: {"size": s, "signed": POOR, "deletion": None} for name, s in sizes.items()
        },
        "verdict": verdict,
    }


def verdict(believe, attention=None, difference=None):
    return {"believe": believe, "attention": attention, "difference": difference}


WORSE = verdict("gradient_times_input", "worse", [0.48, 0.41, 0.55])
FOUND = {
    "rows": 401,
    "missed": {"integrated_gradients": 0.0123},
    "kinds": {
        "fields": kind(
            ["item", "device"],
            verdict("gradient_times_input"),
            gradient_times_input=GOOD,
            integrated_gradients=FAIR,
        ),
        "events/clicks": kind(
            [str(n) for n in range(1, 8)],
            WORSE,
            gradient_times_input=GOOD,
            integrated_gradients=FAIR,
            attention=POOR,
        ),
    },
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relevance")
    metrics = folders.metrics()
    metrics["tasks"]["click"]["relevance"] = FOUND
    write_report(folders.write(folder, metrics, folders.columns()), folder / "report.html")
    return pages.Page((folder / "report.html").read_text("utf-8"))


def test_the_table_compares_methods_with_leaving_one_out(page):
    rows = [row for row in page.tables["relevance"] if len(row) == 4][1:]
    others = ["0.13 (0.02 to 0.24)", "—"]
    assert rows == [
        ["gradient times input", "0.61 (0.57 to 0.64)", *others],
        ["integrated gradients 1.2% missed", "0.52 (0.47 to 0.58)", *others],
        ["gradient times input", "0.61 (0.57 to 0.64)", *others],
        ["integrated gradients", "0.52 (0.47 to 0.58)", *others],
        ["attention weights", "0.13 (0.02 to 0.24)", *others],
    ]
    believed = [attributes for _, attributes in page.tags if attributes.get("class") == "believed"]
    assert len(believed) == 2
    assert "397 of 401 rows have an order" in page.html
    text = page.sections["click"].text
    assert "Attention weights alone agree less, by 0.48 (0.41 to 0.55)." in text


def test_each_kind_has_a_picture_of_shares_and_of_deletion(page):
    assert page.sections["click"].pictures[-4:] == [
        "Relevance of fields",
        "Taken away: fields",
        "Relevance of events of clicks",
        "Taken away: events of clicks",
    ]
    fields = page.points["Relevance of fields"]
    assert fields[0][:3] == ["", "rows", "leaving one out, mean"]
    assert [row[0] for row in fields[1:]] == ["device", "item"]  # the most relevant first
    assert fields[1][-3:] == ["20%"] * 3
    events = page.points["Relevance of events of clicks"]
    assert [row[0] for row in events[1:]] == list("1234567")
    away = page.points["Taken away: fields"]
    assert away[2] == ["50%", *["0.3000"] * 4]
    assert "Relevance of fields" not in page.sections["conversion"].pictures


def test_no_effect_has_no_picture():
    still = kind(["item"], verdict(None), gradient_times_input=None)
    still["shares"]["leave_one_out"] = [0.0]
    assert relevance_section.pictures({"kinds": {"fields": still}}) == {}
    assert "changes too few scores" in relevance_section.verdict("fields", still)


@pytest.mark.parametrize(
    ("given", "sizes", "words"),
    [
        (verdict("gradient_times_input"), (GOOD, FAIR), "believe gradient times input: the order"),
        (verdict(None), (POOR, POOR), "Believe no order"),
        (verdict("attention", "better"), (FAIR, POOR, GOOD), "The next, gradient times input,"),
        (verdict("gradient_times_input", "as well"), (GOOD, FAIR, FAIR), "do as well: 0.52"),
    ],
)
def test_the_verdict_is_a_sentence(given, sizes, words):
    found = kind(["1"], given, **dict(zip(METHODS, sizes, strict=False)))
    assert words in relevance_section.verdict("events/clicks", found)
    assert "events of clicks" in relevance_section.verdict("events/clicks", found)
