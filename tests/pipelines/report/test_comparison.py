"""A run against others: paired differences, verdicts, seeds, and rows that are not the same."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.metrics import auc_difference
from pipelines.report import write_report
from pipelines.report.against import compared, verdicts
from pipelines.report.compared_models import sides_of
from tests.pipelines.report.noisy import scored
from tests.pipelines.report.pages import Page

LABEL = "click/label"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A model with two seeds, a worse one, and the first again with other noise as small."""
    place = tmp_path_factory.mktemp("runs")
    return {
        "good": scored(place / "good", 0.3),
        "bad": scored(place / "bad", 1.5, 2, 0.02),
        "seed": scored(place / "seed", 0.3, 3),
        "alike": scored(place / "alike", 0.3, 4, 0.03),
    }


def of(runs, *names):
    return compared({name: runs[name] for name in names})


def test_differences_are_paired_and_by_user(runs):
    (side,) = of(runs, "good", "bad")["sides"]
    found = side["tasks"]["click"]["metrics"]
    table = pq.read_table(runs["good"].predictions).filter(
        pa.array(~np.isnan(pq.read_table(runs["good"].predictions)[LABEL].to_numpy()))
    )
    scores = [runs[name].task_rows("click").scores for name in ("good", "bad")]
    users = table["group"].to_numpy()
    expected = auc_difference(table[LABEL].to_numpy(), *scores, users)
    assert found["auc"]["difference"] == pytest.approx(expected.value, abs=1e-12)
    assert found["auc"]["interval"] == pytest.approx([expected.low, expected.high], abs=1e-12)
    assert found["auc"]["p"] == pytest.approx(expected.p)
    for name, run in (("ours", "good"), ("theirs", "bad")):
        task = runs[run].metrics["tasks"]["click"]
        for metric in ("auc", "gauc", "logloss", "normalised_entropy"):
            assert found[metric][name] == pytest.approx(task[metric], abs=1e-9)
    relative = (found["auc"]["ours"] - 0.5) / (found["auc"]["theirs"] - 0.5) - 1
    assert found["auc"]["relative"] == pytest.approx(relative)
    inside = table["segment/device"].to_numpy(zero_copy_only=False) == "device=b"
    part = auc_difference(
        table[LABEL].to_numpy()[inside], *(each[inside] for each in scores), users[inside]
    )
    segment = side["tasks"]["click"]["segments"][1]
    assert (segment["name"], segment["rows"]) == ("device=b", inside.sum())
    assert segment["auc"]["interval"] == pytest.approx([part.low, part.high], abs=1e-12)


def test_a_verdict_names_the_better_model_with_size(runs):
    (text,) = verdicts(of(runs, "good", "bad"))
    auc = of(runs, "good", "bad")["sides"][0]["tasks"]["click"]["metrics"]["auc"]
    low, high = auc["interval"]
    size = f"AUC {auc['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
    assert text.startswith(f"good ranks better for click: {size} on ")
    assert "groups by user_id; the probabilities of good are better: logloss -" in text
    (swapped,) = verdicts(of(runs, "bad", "good"))
    assert swapped == text
    (text,) = verdicts(of(runs, "good", "alike"))
    assert text.startswith("good and alike cannot be told apart by the order for click: AUC ")
    assert "their probabilities cannot be told apart" in text


def test_seeds_are_one_model_and_stay_apart(runs):
    found = of(runs, "good", "bad", "seed")
    (side,) = found["sides"]
    (seeds,) = found["seeds"]
    assert (side["name"], found["name"]) == ("bad", "good (2 seeds)")
    values = [runs[name].metrics["tasks"]["click"]["auc"] for name in ("good", "seed")]
    spread = seeds["tasks"]["click"]["auc"]
    assert spread["values"] == pytest.approx(values, abs=1e-12)
    assert spread["deviation"] == pytest.approx(np.std(values, ddof=1))
    auc = side["tasks"]["click"]["metrics"]["auc"]
    assert auc["ours"] == pytest.approx(np.mean(values))
    one = of(runs, "good", "bad")["sides"][0]["tasks"]["click"]["metrics"]["auc"]
    widths = [np.diff(each["interval"])[0] for each in (auc, one)]
    assert 0.7 < widths[0] / widths[1] < 1.01  # without the spread of the seeds
    assert f"standard deviation of {spread['deviation']:.4f}" in verdicts(found)[0]
    alone = of(runs, "good", "seed")
    assert alone["sides"] == []
    assert verdicts(alone)[0].startswith("click: Between the 2 seeds of good")
    again = sides_of({"good": runs["good"], "copy": runs["good"]})
    assert [side.name for side in again] == ["good", "copy"]


def test_rows_that_moved_most_are_shown(runs):
    moved = of(runs, "good", "bad")["sides"][0]["tasks"]["click"]["moved"]
    tables = [pq.read_table(runs[name].predictions) for name in ("good", "bad")]
    change = np.abs(np.subtract(*(table["click/score"].to_numpy() for table in tables)))
    change[np.isnan(tables[0][LABEL].to_numpy())] = 0
    assert [each["row"] for each in moved] == np.argsort(-change)[:10].tolist()
    for each in moved:
        row = tables[0].slice(each["row"], 1).to_pylist()[0]
        assert (each["request"], each["group"]) == (row["request"], row["group"])
        assert (each["label"], each["ours"]) == (row[LABEL], pytest.approx(row["click/score"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "test"}, "it was evaluated on the test rows, not on the valid rows"),
        ({"rows": 11}, "it was evaluated on 11 rows, not on 12,000"),
        ({"task": "buy"}, "they have no task in common: 'buy' and 'click'"),
        ({"flipped": 3}, "its labels of task 'click' differ in 3 of 12,000 rows"),
        ({"drawn_negatives": 9}, "negatives were drawn for each request, and the data"),
    ],
)
def test_other_rows_are_an_error(runs, tmp_path, changes, message):
    flipped, task = changes.pop("flipped", 0), changes.pop("task", None)
    other = scored(tmp_path, 0.3, data_hash="other", **changes)
    if task:
        other.metrics["tasks"] = {task: other.metrics["tasks"]["click"]}
    if flipped:
        table = pq.read_table(other.predictions)
        labels = table[LABEL].to_numpy().copy()
        known = np.flatnonzero(~np.isnan(labels))[:flipped]
        labels[known] = 1 - labels[known]
        column = pa.array(labels, from_pandas=True)
        place = table.column_names.index(LABEL)
        pq.write_table(table.set_column(place, LABEL, column), other.predictions)
    with pytest.raises(PipelineError, match=f"other cannot be compared with good: {message}"):
        compared({"good": runs["good"], "other": other})


def test_the_page_has_a_section_of_the_other_run(runs, tmp_path):
    found = of(runs, "good", "bad", "seed")
    target = tmp_path / "report.html"
    write_report(runs["good"].predictions.parent, target, found)
    page = Page(target.read_text("utf-8"))
    assert ("section", {"id": "against"}) in page.tags
    assert ("a", {"href": "#against"}) in page.tags
    assert verdicts(found)[0] in page.html
    head, _, auc, *_ = page.tables["against"]
    assert len(head) == len(auc) == 6
    assert auc[0] == "AUC"
    assert auc[4] == "<0.001 better"
    assert len(page.tables["numbers moved"]) == 1 + 10
    assert "seed 1" in page.tables["seeds"][0]
    assert [row[0] for row in page.tables["segments"]][:2] == ["Segment", "device=a"]
