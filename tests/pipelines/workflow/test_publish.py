"""TensorBoard and MLflow receive the numbers of metrics.json and the pictures of the page."""

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pipelines.common.errors import PipelineError
from pipelines.report import write_report
from pipelines.workflow.publish import numbers, publish
from pipelines.workflow.steps import REPORT
from tests.pipelines.report import folders

PICTURES = {
    *(f"click/{name}" for name in ("ROC curve", "Calibration", "Scores by label", "Training")),
    *(f"conversion/{name}" for name in ("ROC curve", "Calibration", "Scores by label")),
    "click/Importance",
    "drift/price",
}


class Finished:
    """A run folder with an evaluation, in the place of the steps that made it."""

    def __init__(self, folder: Path) -> None:
        self.run, self.folder = self, folder
        folders.write(self.path("evaluate"), folders.metrics(), folders.columns())
        write_report(self.path("evaluate"), folder / REPORT)

    def path(self, step: str) -> Path:
        return self.folder / "evaluation"

    def manifest(self, step: str) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Finished(tmp_path_factory.mktemp("published"))


def test_tensorboard_has_the_numbers_and_pictures(finished: Any) -> None:
    for _ in range(2):  # the second time in the place of the first
        folder = publish(finished, "tensorboard")
    found = EventAccumulator(folder, size_guidance={"tensors": 0})
    found.Reload()
    wanted = numbers(json.loads((finished.path("evaluate") / "metrics.json").read_text()))
    assert wanted["click/auc"] == folders.METRICS["tasks"]["click"]["auc"]
    assert wanted["click/auc_low"] == folders.METRICS["tasks"]["click"]["intervals"]["auc"][0]
    assert "click/ndcg@10" in wanted
    assert set(found.Tags()["tensors"]) == wanted.keys() | PICTURES
    for name, value in wanted.items():
        (event,) = found.Tensors(name)
        assert event.step == 2  # the kept epoch
        assert tf.make_ndarray(event.tensor_proto) == pytest.approx(value, rel=1e-6)
    (event,) = found.Tensors("click/ROC curve")
    width, height, png = tf.make_ndarray(event.tensor_proto)[:3]
    assert int(width) > int(height) > 400
    assert png.startswith(b"\x89PNG")


def test_mlflow_has_a_run_with_the_page(finished: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is an extra")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((finished.folder / "mlruns").as_uri())
    run_id = publish(finished, "mlflow").rpartition(" ")[2]
    run = mlflow.get_run(run_id)
    assert run.data.metrics["click/ndcg_at_10"] == pytest.approx(
        folders.METRICS["tasks"]["click"]["at_k"]["ndcg@10"]
    )
    assert run.data.params["training.epochs"] == "17"
    assert run.data.tags["config_hash"] == "c0ffee12"
    files = {path.name for path in (finished.folder / "mlruns").rglob("artifacts/**/*.*")}
    assert {f"{name.rpartition('/')[2]}.png" for name in PICTURES} | {REPORT} <= files


def test_without_mlflow_the_error_names_the_extra(
    finished: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("pipelines.workflow.publish.importlib.import_module", missing)
    with pytest.raises(PipelineError, match=r"recsys-attn\[mlflow\]"):
        publish(finished, "mlflow")


def test_a_missing_page_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is an extra")
    other: Any = Finished(tmp_path)
    (tmp_path / REPORT).unlink()
    with pytest.raises(PipelineError, match="recsys-attn report"):
        publish(other, "mlflow")
