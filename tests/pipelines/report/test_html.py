"""The report shows the metrics in one self-contained file."""

import re
from pathlib import Path

import numpy as np
import pytest

from pipelines.report import ReportPage, write_report
from tests.pipelines.report import folders
from tests.pipelines.report.pages import Page

ALL_PICTURES = ["ROC curve", "Calibration", "Scores by label", "Training", "Importance"]


def render(folder: Path, metrics=None, columns=None) -> Page:
    folders.write(folder, metrics or folders.metrics(), columns or folders.columns())
    write_report(folder, folder / "report.html")
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Page:
    return render(tmp_path_factory.mktemp("evaluation"))


def shown(*values, places=(4, 4, 4, 3)):
    """Cells that show these numbers rounded, with the exact ones behind them."""
    return [
        ("—", None) if value is None else (f"{value:.{digits}f}", pytest.approx(value, abs=1e-15))
        for value, digits in zip(values, places, strict=True)
    ]


def test_the_page_shows_the_metrics_and_pictures(page):
    click = folders.METRICS["tasks"]["click"]
    best, rule = click["ceiling"], click["baselines"]["popularity"]
    found = page.summary["click"]
    rows = ["about", "model", "95 % interval", "ceiling", "distance", "train rate for every row"]
    assert list(found) == [*rows, "popularity baseline"]
    names = ("auc", "gauc", "logloss", "calibration")
    calibration = (f"{click['calibration']:.3f} too high", click["calibration"])
    assert found["model"] == [*shown(*(click[name] for name in names))[:3], calibration]
    texts = [text for text, _ in found["95 % interval"]]
    assert texts == ["0.6912 to 0.7335", "0.6712 to 0.7263", "", ""]
    trivial = click["trivial"]
    assert found["train rate for every row"] == shown(*(trivial[name] for name in names))
    assert found["ceiling"][:3] == shown(*(best[name] for name in names[:3]), places=(4, 4, 4))
    gaps = (best["auc"] - click["auc"], best["gauc"] - click["gauc"])
    loss_gap = click["logloss"] - best["logloss"]
    assert found["distance"][:3] == shown(*gaps, loss_gap, places=(4, 4, 4))
    assert found["popularity baseline"][:2] == shown(rule["auc"], rule["gauc"], places=(4, 4))
    about = " ".join(found["about"][0][0].split())
    assert about == "click 1,009 rows, 251 positive (24.88%); GAUC over 83 groups by user_id"
    task = folders.METRICS["tasks"]["conversion"]
    found = page.summary["conversion"]
    assert list(found) == ["about", "model"]
    assert found["model"] == shown(task["auc"], None, task["logloss"], task["calibration"])
    text = re.sub(r"<[^>]+>", "", page.html)
    assert "The model attention_ranker on the valid rows." in text
    names = ("Rows", "Requests", "Seed", "Configuration", "Data", "keras")
    expected = ["1,009", "127", "41", "c0ffee12", "decade34", "3.15.1"]
    assert [page.facts[name] for name in names] == expected
    assert "0.0222 below the ceiling of 0.7346" in text
    assert "Marked calibration: below 0.9 or above 1.1, and by more than chance" in text
    names = ("Kept epoch", "Chosen by", "Training stopped", "training.epochs")
    expected = ["2 of 3", "AUC of click 0.7033 on the validation rows", "17"]
    stopped = "after 1 epoch without a better one (training.patience)"
    assert [page.facts[name] for name in names] == [*expected[:2], stopped, *expected[2:]]
    more = [row[-1] for row in page.tables["more"][1:]]
    assert more == ["0.3825", "0.8136", "0.7925", "0.0235", "0.6957 to 0.7290", "86.42%"]
    places = page.tables["places"]
    assert places[0] == ["Order within 71 requests", "k", "HR", "NDCG", "MRR", "MAP"]
    assert places[1] == ["model", "5", "0.4100", "0.4120", "0.4140", "0.4160"]
    assert [row[0] for row in places[1:5]] == ["model", "ceiling", "random order", "popularity"]
    assert len(places) == 9
    dates = ["First shown_at", "Last shown_at"]
    assert page.tables["splits"][:2] == [
        ["Split", "Rows", "click, positive", "conversion, positive", *dates],
        ["train", "8,089", "20%", "13.98% of 3,011", "1001", "2003"],
    ]
    assert page.tables["features"][1:] == [
        ["item_id", "categorical", "candidate", "hash", "50,021"],
        ["price", "numeric", "candidate", "log1p", ""],
    ]
    assert page.sections["click"].pictures == ALL_PICTURES
    assert page.sections["conversion"].pictures == ALL_PICTURES[:3]  # it was not validated
    assert page.sections["Data and settings"].pictures == ["Drift", "price", "Origin"]
    assert [tag for tag, _ in page.tags].count("svg") == 9


def test_the_page_shows_drift_and_origin(page):
    assert "1 of 2 features drifted from the train to the valid rows: price." in page.html
    assert page.tables["drift"] == [
        ["Feature", "Distance", "", "Test", "Missing", "Unknown"],
        ["price", "0.314", "drifted", "Kolmogorov-Smirnov, p = 0.012", "2.13% → 7.34%", "—"],
        ["item_id", "0.027", "", "", "0%", "0% → 5.12%"],
    ]
    assert page.points["price"] == [
        ["bin", "train", "evaluated"],
        ["below 3", "60%", "30%"],
        ["3 or more", "40%", "70%"],
    ]
    assert page.facts["Trained on"] == "Fast One, 67 cores, 64 GiB, Big GPU"
    assert page.facts["Evaluated on"] == "Slow One, 3 cores, 8 GiB"
    assert page.facts["Time"] == "ingest 3.1 s, fit 1.6 s, train 2,653.6 s"


def test_the_file_needs_nothing_but_itself(page):
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "img", "object", "embed", "base"}
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert "//" not in (attributes.get("style") or "")
    style = page.html[page.html.index("<style>") : page.html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert len(page.html.encode()) < 200_000  # two tasks; 5 MB are fifty
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    used = set(re.findall(r"url\(#(\w+)\)", page.html)) | set(
        re.findall(r'href="#(\w+)"', page.html)
    )
    assert used
    assert used <= ids


def test_the_contents_lead_to_every_section(page):
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == ["#summary", "#task-1", "#task-2", "#data", "#reading"]
    ids = [attributes.get("id") for tag, attributes in page.tags if tag in ("section", "div")]
    assert [ids.count(link[1:]) for link in links] == [1] * 5
    assert "prefers-color-scheme: dark" in page.html
    calibration, distribution = page.points["Calibration"], page.points["Scores by label"]
    assert calibration[0] == ["predicted", "observed", "from", "to", "smooth", "rows"]
    assert sum(int(row[-1].replace(",", "")) for row in calibration[1:11]) == folders.ROWS
    assert distribution[0] == ["from", "to", "label 0", "label 1"]
    assert page.points["Training"][1:] == [
        ["1", "0.6511", "0.5122"],
        ["2", "0.7033", "0.4744"],
        ["3", "0.6955", "0.4866"],
    ]


def test_a_notebook_shows_the_page_in_a_frame(page, tmp_path):
    folders.write(tmp_path, folders.metrics(), folders.columns())
    frame = Page(ReportPage(tmp_path)._repr_html_())
    ((tag, attributes),) = frame.tags
    base = '<base href="about:srcdoc">'  # else its links lead to the notebook
    assert (tag, attributes["srcdoc"].replace(base, "", 1)) == ("iframe", page.html)
    assert f"<head>{base}" in attributes["srcdoc"]


def test_the_same_folder_gives_the_same_file(page, tmp_path):
    assert render(tmp_path).html == page.html
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", page.html)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("label", "word"), [(0, "negative"), (1, "positive")])
def test_a_task_of_one_class_or_no_rows_says_so(tmp_path, label, word):
    metrics, columns = folders.metrics(), folders.columns()
    undefined = {"auc": None, "gauc": None, "positives": label * folders.ROWS}
    metrics["tasks"]["click"] |= undefined | {"ceiling": dict.fromkeys(("auc", "gauc", "logloss"))}
    metrics["tasks"]["click"]["baselines"]["popularity"] = {"auc": None, "gauc": None}
    metrics["tasks"]["click"] |= {"trivial": None, "at_k": {}, "calibration_off": None}
    columns["click/label"] = np.full(folders.ROWS, label, np.float32)
    page = render(tmp_path, metrics, columns)
    assert f"All 1,009 labelled rows are {word}" in page.sections["click"].text
    assert page.sections["click"].pictures == ALL_PICTURES[1:]
    assert page.summary["click"]["model"][0] == ("—", None)
    assert page.summary["click"]["distance"][0] == ("—", None)

    nothing = dict.fromkeys(("auc", "gauc", "logloss", "calibration"))
    metrics["tasks"]["conversion"] |= nothing | {"rows": 0, "positives": 0}
    columns["conversion/label"] = np.full(folders.ROWS, np.nan, np.float32)
    page = render(tmp_path, metrics, columns)
    assert "No row has a label for this task" in page.sections["conversion"].text
    assert page.sections["conversion"].pictures == []
    assert page.summary["conversion"]["model"] == [("—", None)] * 4


def test_a_task_without_probabilities_has_no_calibration(tmp_path):
    metrics = folders.metrics()
    names = ("logloss", "calibration", "calibration_off")
    task = metrics["tasks"]["click"]
    task |= dict.fromkeys(names)
    task["trivial"] |= dict.fromkeys(names)
    for epoch in metrics["training"]:
        epoch["val_click_ndcg@10"] = 1 - epoch.pop("val_click_logloss")
    page = render(tmp_path, metrics)
    assert page.summary["click"]["model"][2:] == [("—", None)] * 2
    assert "train rate for every row" not in page.summary["click"]
    assert "are no probabilities" in page.sections["click"].text
    assert page.sections["click"].pictures == [
        "ROC curve",
        "Scores by label",
        "Training",
        "Importance",
    ]
    assert "NDCG@10" in page.html


def test_a_folder_of_an_older_version_has_a_report(tmp_path):
    metrics = folders.metrics()
    for name in ("kept", "splits", "times", "settings", "features"):
        del metrics[name]
    for task in metrics["tasks"].values():
        for name in ("at_k", "ranked_requests", "trivial", "calibration_off"):
            del task[name]
    page = render(tmp_path, metrics)
    assert page.sections["click"].pictures == ALL_PICTURES
    assert "Kept epoch" not in page.facts


def test_names_are_escaped(tmp_path):
    attack = "<script>alert(1)</script>"
    metrics, columns = folders.metrics(), folders.columns()
    metrics["name"] = metrics["model"] = metrics["group"] = attack
    metrics["tasks"] = {attack: metrics["tasks"]["click"]}
    metrics["tasks"][attack]["baselines"] = {attack: {"auc": 0.5, "gauc": 0.5}}
    columns = {name.replace("click", attack): column for name, column in columns.items()}
    columns[f"baseline/{attack}"] = columns.pop("baseline/popularity")
    page = render(tmp_path, metrics, columns)
    assert "<script" not in page.html
    assert page.html.count("&lt;script&gt;alert(1)") >= 6
    assert attack in page.summary
