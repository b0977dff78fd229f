"""The steps of a sequence model's experiment, bound to its run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pipelines import training
from pipelines.common.artifacts import METRICS, read_json, write_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine
from pipelines.features import FittedFeatures
from pipelines.ingest.events.ingest_events import ingest_events
from pipelines.pretraining.evaluate_next_items import evaluate, print_results
from pipelines.pretraining.experiment import (
    SequenceExperiment,
    check_experiment,
    load_sequence_experiment,
)
from pipelines.pretraining.export_next_items import export_next_items
from pipelines.pretraining.schema import schema_of
from pipelines.pretraining.train_sequences import train_sequences
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_sequence_model
from pipelines.workflow.run_steps import RunSteps
from recsys_attn.models import SequenceModel
from recsys_attn.schema import Schema


@dataclasses.dataclass(frozen=True)
class SequenceSteps(RunSteps):
    """The steps of a sequence model's experiment; each method is one of `recsys-attn`."""

    experiment: SequenceExperiment

    @staticmethod
    def _read(folder: Path) -> SequenceExperiment:
        return load_sequence_experiment(folder)

    def ingest(self, engine: Engine = LOCAL) -> None:
        """Reads the events and writes the sequences of the splits."""
        _require_local("ingest", engine)
        check_experiment(self.experiment)  # even if the data is up to date
        super().ingest()

    def _ingested(self, folder: Path, engine: Engine, progress: Progress) -> Mapping[str, Any]:
        summary = ingest_events(self.experiment.data, folder, progress)
        rows = "  ".join(f"{split} {count:,}" for split, count in summary["rows"].items())
        progress.finish(
            f"{summary['events']:,} events of {summary['users']:,} users and "
            f"{summary['items']:,} items; rows: {rows}"
        )
        left_out = [
            f"{count:,} {name.replace('_', ' ')}"
            for name, count in summary["left_out"].items()
            if count
        ]
        if left_out:
            progress.finish(f"left out: {', '.join(left_out)}")
        return summary

    def _schema(self, train: DataSplit) -> Schema:
        experiment = self.experiment
        item, length = experiment.data.item, experiment.max_length
        return schema_of(train.schema, item, experiment.columns, length)

    def _train(
        self, data: training.TrainingData, output: training.OutputPaths, progress: Progress
    ) -> training.TrainingResult:
        return train_sequences(self.experiment, data, output, progress)

    def evaluate(self, engine: Engine = LOCAL) -> None:
        """Ranks the catalogue for the test rows, by the model and by simple rules."""
        _require_local("evaluate", engine)

        def build(folder: Path) -> Mapping[str, Any]:
            fitted, model = self.load()
            progress = Progress(self.console)
            metrics = evaluate(self.experiment, self.run.path("ingest"), fitted, model, progress)
            write_json(folder / METRICS, metrics)
            return {"rows": metrics["rows"]}

        self._execute("evaluate", build)
        at, places = self.experiment.evaluation.at, self.experiment.training.places
        metrics = read_json(self.run.path("evaluate") / METRICS)
        print_results(self.console, metrics, places if places in at else at[0])

    def _exported(self, folder: Path, name: str, version: int) -> Mapping[str, Any]:
        fitted, model = self.load()
        return export_next_items(
            folder,
            name,
            version,
            model,
            fitted,
            DataSplit(self.run.path("ingest") / "test"),
            self.experiment.export.top,
            self.experiment.evaluation.seen == "filtered",
        )

    @property
    def _load(self) -> Callable[[], tuple[FittedFeatures, SequenceModel]]:
        return partial(load_sequence_model, self.run.folder)


def _require_local(step: str, engine: Engine) -> None:
    if engine is not LOCAL:
        raise PipelineError(
            f"--engine: expected 'local' for the step {step!r} of a sequence model, which runs in "
            "this process. Received: 'ray'. Leave the option out."
        )
