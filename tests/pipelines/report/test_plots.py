"""The plots: their numbers and names, and edge cases."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import binomtest

from pipelines.report import palette, plots
from pipelines.report.results import TaskRows
from tests.pipelines.report import folders


def rows(labels, scores, ceiling=None, baselines=None) -> TaskRows:
    return TaskRows(np.asarray(labels, float), np.asarray(scores, float), ceiling, baselines or {})


def calibration(found: TaskRows) -> plots.Picture:
    """The plot of rows that do not depend on each other."""
    return plots.calibration(found, np.arange(found.labels.size))


def sample(count=1000, rate=0.2, spread=0.05) -> TaskRows:
    generator = np.random.default_rng(17)
    scores = np.clip(generator.normal(rate, spread, count), 0.001, 0.999)
    return rows(generator.random(count) < scores, scores)


def texts(svg: str) -> list[str]:
    found = [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.text]
    return [" ".join(text.split()) for text in found if text.strip()]


def test_the_roc_curves_are_named_with_their_auc_best_first():
    found = sample()
    baselines = {"_$\\frac$": found.scores**2, "a rule with a name far too long": -found.scores}
    found = rows(found.labels, found.scores, found.scores, baselines)
    metrics = {
        "auc": 0.71,
        "ceiling": {"auc": 0.72},
        "baselines": {"_$\\frac$": {"auc": 0.69}, "a rule with a name far too long": {"auc": 0.8}},
    }
    svg, points, _ = plots.roc(found, metrics)
    assert texts(svg)[-5:] == [
        "AUC",
        "0.8000 a rule with a name fa…",
        "0.7200 ceiling",
        "0.7100 model",
        "0.6900 _$\\frac$",
    ]
    for name in ("model", "ceiling", "baseline"):
        assert f"stroke: var(--{name})" in svg
    assert not re.search("(fill|stroke): #", svg)  # else a dark page cannot change it
    assert points.head[:3] == ["false positive rate", "model", "ceiling"]
    by_hand = np.mean(found.scores[found.labels == 1] > np.quantile(found.scores, 0.9))
    at_tenth = next(row for row in points.rows if row[0] == "10%")
    assert float(at_tenth[1].rstrip("%")) / 100 == pytest.approx(by_hand, abs=0.05)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.linspace(0.1, 0.5, 1000), "10 bins of 100 rows"),
        (np.repeat([0.2, 0.4, 0.6], [200, 500, 300]), "3 bins of 200 to 500 rows"),
        (np.full(1000, 0.3), "1 bin of 1,000 rows"),
    ],
)
def test_the_calibration_plot_counts_its_bins(scores, said):
    labels = np.random.default_rng(1).random(1000) < scores
    assert f"predicted rate, {said}" in texts(calibration(rows(labels, scores)).svg)


def test_the_intervals_are_wilsons():
    counts = np.array([7, 101, 997])
    positives = np.array([0, 13, 997])
    low, high = plots._wilson(positives / counts, counts)
    for i in range(3):
        expected = binomtest(positives[i], counts[i]).proportion_ci(0.95, "wilson")
        np.testing.assert_allclose((low[i], high[i]), expected, atol=1e-5)


def test_rows_of_a_user_count_as_few_as_they_tell():
    found = sample(3000)
    counts = np.array([1200, 1800])
    alone = plots.bin_sizes(found, np.arange(3000), counts)
    np.testing.assert_allclose(alone, counts, rtol=0.01)
    twice = rows(np.repeat(found.labels, 2), np.repeat(found.scores, 2))
    both = plots.bin_sizes(twice, np.repeat(np.arange(3000), 2), 2 * counts)
    np.testing.assert_allclose(both, counts, rtol=0.01)
    same = rows(np.zeros(60), np.linspace(0.1, 0.2, 60))
    np.testing.assert_allclose(plots.bin_sizes(same, np.arange(60) // 4, np.array([60])), 15)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(101),
        np.ones(101),
        np.full(101, 0.31),
        np.linspace(0.3101, 0.3102, 101),
        np.linspace(0, 1, 101),
        np.full(1, 0.5),
    ],
    ids=["all 0", "all 1", "constant", "narrow", "all there is", "one row"],
)
@pytest.mark.parametrize("label", [0, 1, None])
def test_no_scores_break_the_pictures(scores, label):
    labels = np.arange(scores.size) % 2 if label is None else np.full(scores.size, label)
    for draw in (calibration, plots.distribution):
        svg, points, _ = draw(rows(labels, scores))
        assert {len(row) for row in points.rows} == {len(points.head)}
        assert len([text for text in texts(svg) if text.endswith("%")]) >= 3  # ticks
        assert "nan" not in svg


def test_training_curve_marks_best_epoch_and_skips_missing():
    written = texts(plots.training("click", folders.METRICS["training"]).svg)
    assert "0.7033" in written
    assert "0.4744" in written
    assert {"1", "2", "3"} <= set(written)
    epochs = [{"epoch": 1, "val_click_auc": 0.6}, {"epoch": 2, "val_click_auc": None}]
    svg, points, _ = plots.training("click", epochs)
    written = texts(svg)
    assert points == (["epoch", "AUC"], [["1", "0.6000"], ["2", "—"]])
    assert {"0.6000", "validation", "AUC", "1", "2"} <= set(written)
    assert "logloss" not in written  # nothing was measured
    assert not [text for text in written if "nan" in text]
    learned = [{**epoch, "weight_click": 1.25} for epoch in epochs]
    assert plots.training("click", learned).points == (
        ["epoch", "AUC", "weight of the task"],
        [["1", "0.6000", "1.2500"], ["2", "—", "1.2500"]],
    )


def luminance(color: str) -> float:
    """The relative luminance of WCAG 2."""
    shares = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colors", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_colors_can_be_read_on_their_paper(colors):
    assert colors.keys() == palette.LIGHT.keys()
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)  # a colour has one name
    paper = luminance(colors["paper"]) + 0.05
    for name in colors.keys() - {"paper", "wash", "line", "faint"}:
        contrast = paper / (luminance(colors[name]) + 0.05)
        least = 4.5 if name in ("ink", "soft", "alarm", "caution", "good", "model") else 3.0
        assert max(contrast, 1 / contrast) >= least, name


def test_the_importance_plot_names_features_from_the_most_important_down():
    names = [f"feature {number}" for number in range(20)]
    entries = [{"feature": n, "auc": [0.2 - i / 100, 0.1, 0.3]} for i, n in enumerate(names)]
    entries.insert(1, {"feature": "one class", "auc": None})
    svg, points, _ = plots.importance(entries)
    written = texts(svg)
    assert points.rows[:2] == [
        ["feature 0", "0.2000", "0.1000", "0.3000"],
        ["one class", "—", "—", "—"],
    ]
    assert [text for text in written if "feature" in text] == names[: plots.MOST_FEATURES][::-1]
    assert "AUC lost without it" in written
