"""Training: from a data split to a model with its best weights."""

from pipelines.training.ensemble import check_runs, runs_of, train_ensemble
from pipelines.training.history import History
from pipelines.training.load import MODEL_FILE
from pipelines.training.model import build_model, check_model
from pipelines.training.teacher import fingerprint_of
from pipelines.training.train import LOGS, OutputPaths, TrainingData, TrainingResult, train
from pipelines.training.workers import worker_count, worker_index

__all__ = [
    "LOGS",
    "MODEL_FILE",
    "History",
    "OutputPaths",
    "TrainingData",
    "TrainingResult",
    "build_model",
    "check_model",
    "check_runs",
    "fingerprint_of",
    "runs_of",
    "train",
    "train_ensemble",
    "worker_count",
    "worker_index",
]
