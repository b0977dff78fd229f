"""The report's numbers and figures in TensorBoard's files or on an MLflow server."""

from __future__ import annotations

import importlib
import io
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.report.html import all_pictures
from pipelines.report.plots import Picture
from pipelines.report.results import Evaluation
from pipelines.workflow.steps import REPORT, Steps

TENSORBOARD = "tensorboard"  # in the evaluation's folder
_LONGEST = 500  # characters of a parameter


def publish(steps: Steps, target: str) -> str:
    """Gives the last evaluation to `tensorboard` or `mlflow`; returns the place.

    Raises:
        PipelineError: There is no evaluation, MLflow is not installed, or it refuses.
    """
    steps.run.manifest("evaluate")
    folder = steps.run.path("evaluate")
    evaluation = Evaluation.read(folder)
    pictures = all_pictures(evaluation)
    if target == "tensorboard":
        return _to_tensorboard(evaluation.metrics, pictures, folder / TENSORBOARD)
    return _to_mlflow(evaluation.metrics, pictures, steps.run.folder)


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of each task by name, as `click/auc`, and the ends of their intervals.

    Args:
        metrics: The content of an evaluation's metrics.json.
    """
    return {
        f"{task}/{name}": float(value)
        for task, metrics_of_task in metrics["tasks"].items()
        for name, value in _numbers(metrics_of_task)
        if value is not None
    }


def _numbers(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for name, value in metrics.items():
        if isinstance(value, int | float):
            yield name, value
    for part in ("at_k", "own"):
        yield from (metrics.get(part) or {}).items()
    for name, ends in metrics.get("intervals", {}).items():
        if ends:
            yield f"{name}_low", ends[0]
            yield f"{name}_high", ends[1]


def _to_tensorboard(
    metrics: Mapping[str, Any], pictures: Mapping[str, Picture], folder: Path
) -> str:
    """Writes scalars and images at the kept epoch, in the place of earlier ones."""
    shutil.rmtree(folder, ignore_errors=True)
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default(step=(metrics.get("kept") or {}).get("epoch", 0)):
        for name, value in numbers(metrics).items():
            tf.summary.scalar(name, value)
        for name, picture in pictures.items():
            png = io.BytesIO()
            picture.figure.savefig(png, format="png", dpi=120, facecolor="white")
            tf.summary.image(name, tf.io.decode_png(png.getvalue(), channels=3)[None])
    writer.close()
    return str(folder)


def _to_mlflow(metrics: Mapping[str, Any], pictures: Mapping[str, Picture], run: Path) -> str:
    """Logs a run with parameters, metrics, figures and the page."""
    try:
        mlflow: Any = importlib.import_module("mlflow")
    except ModuleNotFoundError:
        raise PipelineError(
            'MLflow is not installed, which --to mlflow needs: pip install "recsys-attn[mlflow]".'
        ) from None
    page = run / REPORT
    if not page.exists():
        raise PipelineError(f"There is no {page}; run `recsys-attn report` first.")
    settings = {"seed": metrics["seed"], **metrics.get("settings", {})}
    try:
        mlflow.set_experiment(metrics["name"])
        with mlflow.start_run(run_name=run.resolve().name) as started:
            mlflow.log_params({key: str(value)[:_LONGEST] for key, value in settings.items()})
            mlflow.set_tags({name: metrics[name] for name in ("config_hash", "data_hash", "model")})
            values = numbers(metrics).items()
            mlflow.log_metrics({name.replace("@", "_at_"): value for name, value in values})
            for name, picture in pictures.items():
                mlflow.log_figure(picture.figure, f"{name}.png")
            mlflow.log_artifact(str(page))
    except mlflow.exceptions.MlflowException as error:
        raise PipelineError(f"MLflow cannot take the run: {error}") from None
    return f"{mlflow.get_tracking_uri()}, run {started.info.run_id}"
