"""Reading an evaluation folder, and its errors."""

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation
from tests.pipelines.report import folders


def test_the_rows_of_a_task_are_its_labelled_ones(tmp_path):
    columns = folders.columns()
    evaluation = Evaluation.read(folders.write(tmp_path, folders.metrics(), columns))
    rows = evaluation.task_rows("conversion")
    assert rows.labels.dtype == rows.scores.dtype == np.float64
    np.testing.assert_array_equal(rows.labels, np.arange(folders.LABELLED) < 59)
    np.testing.assert_array_equal(rows.scores, columns["conversion/score"][: folders.LABELLED])
    assert rows.ceiling is None
    assert rows.baselines == {}


def test_ceiling_and_baselines_come_along(tmp_path):
    columns = folders.columns()
    evaluation = Evaluation.read(folders.write(tmp_path, folders.metrics(), columns))
    rows = evaluation.task_rows("click")
    np.testing.assert_array_equal(rows.ceiling, columns["click/ceiling"])
    np.testing.assert_array_equal(rows.baselines["popularity"], columns["baseline/popularity"])


@pytest.mark.parametrize("name", ["metrics.json", "predictions.parquet"])
def test_a_missing_file_is_named(tmp_path, name):
    folders.write(tmp_path, folders.metrics(), folders.columns())
    (tmp_path / name).unlink()
    with pytest.raises(PipelineError, match=f"There is no .*{name}; run `recsys-attn evaluate`"):
        Evaluation.read(tmp_path)


def test_predictions_of_another_evaluation_are_refused(tmp_path):
    metrics = folders.metrics()
    metrics["tasks"]["click"]["rows"] = 1013
    evaluation = Evaluation.read(folders.write(tmp_path, metrics, folders.columns()))
    with pytest.raises(PipelineError, match=r"counts 1013 labelled rows .*'click' and .* 1009;"):
        evaluation.task_rows("click")


def test_a_missing_or_mistyped_column_is_named(tmp_path):
    columns = folders.columns()
    del columns["click/score"]
    columns["conversion/score"] = ["high"] * folders.ROWS
    evaluation = Evaluation.read(folders.write(tmp_path, folders.metrics(), columns))
    with pytest.raises(PipelineError, match="has no column 'click/score'"):
        evaluation.task_rows("click")
    with pytest.raises(PipelineError, match=r"cannot be read: .*high"):
        evaluation.task_rows("conversion")


def test_damaged_metrics_are_an_error(tmp_path):
    folders.write(tmp_path, folders.metrics(), folders.columns())
    (tmp_path / "metrics.json").write_text('{"name": "cut o')
    with pytest.raises(PipelineError, match=r"metrics\.json is damaged: Unterminated"):
        Evaluation.read(tmp_path)
