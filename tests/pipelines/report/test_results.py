"""Reading an evaluation folder, and its errors."""

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation
from tests.pipelines.report import folders


def read(folder, columns=None, metrics=None):
    return Evaluation.read(
        folders.write(folder, metrics or folders.metrics(), columns or folders.columns())
    )


def test_the_rows_of_a_task_are_its_labelled_ones(tmp_path):
    columns = folders.columns()
    evaluation = read(tmp_path, columns)
    rows = evaluation.task_rows("conversion")
    assert rows.labels.dtype == rows.scores.dtype == np.float64
    np.testing.assert_array_equal(rows.labels, np.arange(folders.LABELLED) < 59)
    np.testing.assert_array_equal(rows.scores, columns["conversion/score"][: folders.LABELLED])
    assert rows.ceiling is None
    assert rows.baselines == {}
    rows = evaluation.task_rows("click")
    np.testing.assert_array_equal(rows.ceiling, columns["click/ceiling"])
    np.testing.assert_array_equal(rows.baselines["popularity"], columns["baseline/popularity"])


def test_predictions_of_another_evaluation_are_refused(tmp_path):
    metrics = folders.metrics()
    metrics["tasks"]["click"]["rows"] = 1013
    evaluation = read(tmp_path, metrics=metrics)
    with pytest.raises(PipelineError, match=r"counts 1013 labelled rows .*'click' and .* 1009;"):
        evaluation.task_rows("click")


def test_a_missing_or_mistyped_column_is_named(tmp_path):
    columns = folders.columns()
    del columns["click/score"]
    columns["conversion/score"] = ["high"] * folders.ROWS
    evaluation = read(tmp_path, columns)
    with pytest.raises(PipelineError, match="has no column 'click/score'"):
        evaluation.task_rows("click")
    with pytest.raises(PipelineError, match=r"cannot be read: .*high"):
        evaluation.task_rows("conversion")


def test_missing_and_damaged_files_are_named(tmp_path):
    read(tmp_path)
    (tmp_path / "metrics.json").write_text('{"name": "cut o')
    with pytest.raises(PipelineError, match=r"metrics\.json is damaged: Unterminated"):
        Evaluation.read(tmp_path)
    for name in ("metrics.json", "predictions.parquet"):
        read(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(PipelineError, match=f"There is no .*{name}; run `recsys-attn evaluat"):
            Evaluation.read(tmp_path)


def test_an_evaluation_of_a_sequence_model_says_where_its_metrics_are(tmp_path):
    source = tmp_path / "metrics.json"
    source.write_text('{"model": "sasrec", "results": {}}')
    with pytest.raises(PipelineError) as error:
        Evaluation.read(tmp_path)
    assert str(error.value) == (
        f"A sequence model has no predictions of rows: its metrics are in {source} alone. Compare "
        "them there; `recsys-attn compare` and `report` take ranking models."
    )


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("click/score", np.nan, r"task 'click': `scores` must be numbers. Received: 1 nan of 1009"),
        ("click/score", 1.5, r"task 'click': `scores` must be probabilities in \[0, 1\]"),
        ("click/score", np.inf, r"task 'click': `scores` must be probabilities in \[0, 1\]"),
        ("click/label", 2, r"task 'click': `labels` must be 0 or 1.* Received: 2.0"),
        ("click/label", 1, r"counts 251 positives of task 'click' and .* holds 252; run"),
    ],
)
def test_wrong_labels_and_scores_are_named(tmp_path, column, value, message):
    columns = folders.columns()
    columns[column][int(np.flatnonzero(columns["click/label"] == 0)[0])] = value
    with pytest.raises(PipelineError, match=message):
        read(tmp_path, columns).task_rows("click")


@pytest.mark.parametrize("column", ["click/label", "request"])
def test_a_column_that_a_comparison_needs_is_named(tmp_path, column):
    columns = folders.columns()
    del columns[column]
    evaluation = read(tmp_path, columns)
    with pytest.raises(PipelineError, match=f"has no column '{column}'; run `recsys-attn eval"):
        evaluation.places("click", np.arange(3))
