"""The steps of a sequence model's experiment, bound to its run folder."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from pipelines import training
from pipelines.common.artifacts import (
    CHECKPOINTS,
    EXPERIMENT,
    METRICS,
    atomic_file,
    hash_files,
    read_json,
    write_json,
)
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL
from pipelines.features import FittedFeatures, fit_split
from pipelines.features.empty import empty_features, nothing_to_learn
from pipelines.ingest.events.ingest import ITEM_COUNTS, ingest_events
from pipelines.ingest.source import SPLITS
from pipelines.pretraining.evaluate import evaluate, print_results
from pipelines.pretraining.experiment import SequenceExperiment, check_experiment
from pipelines.pretraining.export import export_next_items
from pipelines.pretraining.schema import schema_of
from pipelines.pretraining.train import train_sequences
from pipelines.storage.dataset import DataSplit
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.load import load_sequence_model
from pipelines.training.workers import find_workers
from pipelines.workflow.about_run import this_machine
from pipelines.workflow.run import Build, Run
from recsys_attn.models import SequenceModel
from recsys_attn.schema import RESERVED_IDS

_ORDER = ("ingest", "fit", "train", "evaluate", "export")


@dataclass(frozen=True)
class SequenceSteps:
    """Each method is one step of `recsys-attn pretrain`."""

    experiment: SequenceExperiment
    run: Run
    console: Console

    @classmethod
    def of(
        cls, experiment: SequenceExperiment, folder: Path, console: Console, force: bool
    ) -> SequenceSteps:
        """The steps of an experiment in a run folder."""
        command = "recsys-attn pretrain --step"
        settings, files = experiment.settings, experiment.data.stamps
        run = Run(folder, settings, experiment.seed, console, force, command, files)
        return cls(experiment, run, console)

    def everything(self) -> None:
        """Runs all steps in order."""
        self.take(_ORDER)

    def take(self, names: Collection[str]) -> None:
        """Runs the steps of these names, in their order."""
        self._require_training_alone(names)
        if set(names) != {"train"}:  # which checks the same, behind the start of the workers
            check_experiment(self.experiment)
        for name in _ORDER:
            if name in names:
                getattr(self, name)()

    def _require_training_alone(self, names: Collection[str]) -> None:
        """Raises if workers that train together shall do other steps too."""
        if training.worker_count() > 1 and set(names) != {"train"}:
            raise PipelineError(
                "--step: expected `--step train` for workers that train together (TF_CONFIG): the "
                f"other steps run once, before and after. Received: {', '.join(names)}."
            )

    def ingest(self) -> None:
        """Reads the events and writes the sequences of the splits."""
        progress = Progress(self.console)

        def build(folder: Path) -> Mapping[str, Any]:
            try:
                summary = ingest_events(self.experiment.data, folder, progress)
            finally:
                progress.stop()
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
            files = [path for split in SPLITS for path in sorted((folder / split).glob("*"))]
            return {**summary, "data_hash": hash_files(files)}

        self._execute("ingest", build, sources=self.run.stamps)

    def fit(self) -> None:
        """Fits the vocabularies on the train rows."""
        self.run.manifest("ingest")
        train = DataSplit(self.run.path("ingest") / "train")
        experiment, item = self.experiment, self.experiment.data.item
        schema = schema_of(train.schema, item, experiment.columns, experiment.max_length)
        progress = Progress(self.console)

        def build(folder: Path) -> Mapping[str, Any]:
            try:
                fitted = fit_split(schema, train, LOCAL, progress.start("fitting", train.rows))
            finally:
                progress.stop()
            for name in empty_features(schema, train):
                progress.finish(nothing_to_learn(name))
            fitted.save(folder)
            return {"rows": train.rows, "items": _size(fitted, item) - RESERVED_IDS}

        self._execute("fit", build)

    def train(self) -> None:
        """Trains the model and keeps its best weights."""
        checkpoints = self.run.folder / CHECKPOINTS
        if training.worker_index() > 0:  # only the first worker writes the result
            if not self.run.is_current("train", self.run.path("train")):
                self._trained(checkpoints, None)
            return
        if self.run.force:
            shutil.rmtree(checkpoints, ignore_errors=True)

        def build(folder: Path) -> Mapping[str, Any]:
            trained = self._trained(checkpoints, folder / training.LOGS)
            trained.model.save(folder / training.MODEL_FILE)
            weights = sum(v.shape.num_elements() for v in trained.model.trainable_variables)
            Progress(self.console).finish(f"{trained.model.name}: {weights:,} weights")
            options = self.experiment.training
            return {
                "model": trained.model.name,
                "weights": weights,
                "training": trained.history,
                "kept": training.History(trained.history, options).kept(options.monitor),
                "versions": trained.versions,
                "machine": this_machine(),
            }

        self._execute("train", build)

    def _trained(self, checkpoints: Path, logs: Path | None) -> Any:
        workers = find_workers()  # before the table of the vocabulary
        fitted = FittedFeatures.load(self.run.path("fit"))
        return train_sequences(
            self.experiment,
            workers,
            self.run.path("ingest"),
            fitted,
            _counts(self.run, fitted, self.experiment.data.item),
            Checkpoints(checkpoints, self.experiment.training.keep_checkpoints),
            self.run.resume_key("train", self.experiment.resumable, {}),
            logs,
            Progress(self.console),
        )

    def evaluate(self) -> None:
        """Ranks the catalogue for the test rows, by the model and by simple rules."""

        def build(folder: Path) -> Mapping[str, Any]:
            fitted, model = self.load()
            counts = _counts(self.run, fitted, self.experiment.data.item)
            progress = Progress(self.console)
            found = evaluate(
                self.experiment, self.run.path("ingest"), fitted, model, counts, progress
            )
            write_json(folder / METRICS, found)
            return {"rows": found["rows"]}

        self._execute("evaluate", build)
        at = self.experiment.evaluation.at
        places = self.experiment.training.places
        found = read_json(self.run.path("evaluate") / METRICS)
        print_results(self.console, found, places if places in at else at[0])

    def export(self) -> None:
        """Exports a new version of the SavedModel, unless the newest is up to date."""
        options = self.experiment.export
        name = options.name or self.experiment.name
        base = self.run.path("export") / name
        newest = max((int(p.name) for p in base.glob("*") if p.name.isdigit()), default=0)
        current = newest and self.run.is_current("export", base / str(newest))
        version = newest if current else newest + 1

        def build(folder: Path) -> Mapping[str, Any]:
            fitted, model = self.load()
            summary = export_next_items(
                folder,
                name,
                version,
                model,
                fitted,
                DataSplit(self.run.path("ingest") / "test"),
                options.top,
                self.experiment.evaluation.seen == "filtered",
            )
            parity = summary["parity"]
            Progress(self.console).finish(
                f"parity on {parity['rows']} users: largest difference "
                f"{parity['max_difference']:.1e}"
            )
            return {**summary, "data_hash": self.run.manifest("ingest")["data_hash"]}

        self._execute("export", build, target=base / str(version), before=base / str(newest))

    def load(self) -> tuple[FittedFeatures, SequenceModel]:
        """The trained model and its transforms."""
        self.run.manifest("train")
        return load_sequence_model(self.run.folder)

    def _execute(self, step: str, build: Build, **options: Any) -> None:
        self.run.execute(step, build, **options)
        with atomic_file(self.run.folder / EXPERIMENT) as file:
            write_json(file, self.experiment.resolved)


def _counts(run: Run, fitted: FittedFeatures, item: str) -> np.ndarray:
    """How often each item id occurs in the train rows."""
    table = pq.read_table(run.path("ingest") / ITEM_COUNTS)
    ids = fitted.transform_of(item).apply(table[item].combine_chunks())
    counts = np.bincount(ids, table["count"].to_numpy(), minlength=_size(fitted, item))
    return counts.astype("float32")


def _size(fitted: FittedFeatures, item: str) -> int:
    """The number of ids of the items, the reserved ones included."""
    return int(getattr(fitted.schema[item], "size", 0))
