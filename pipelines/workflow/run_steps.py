"""The steps that experiments of both kinds of model share, bound to a run folder."""

from __future__ import annotations

import dataclasses
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.markup import escape

from pipelines import training
from pipelines.common.artifacts import (
    CHECKPOINTS,
    EXPERIMENT,
    MANIFEST,
    atomic_file,
    hash_files,
    write_json,
)
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL, Engine
from pipelines.experiment.step_fingerprints import resumable
from pipelines.export.file_list import versions_in
from pipelines.features import FittedFeatures, fit_split
from pipelines.features.continued import new_values
from pipelines.features.fit_warnings import coarse_features, empty_features, nothing_to_learn
from pipelines.features.unseen import UnseenValues
from pipelines.ingest.source import SPLITS
from pipelines.items import ItemTable, UserTable
from pipelines.items.item_table import FILE as ITEMS
from pipelines.items.user_table import FILE as USERS
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.about_run import this_machine
from pipelines.workflow.differences import differences
from pipelines.workflow.earlier_run import EarlierRun
from pipelines.workflow.run import Build, Run
from recsys_attn.schema import Schema
from serving.state.errors import DataError

ORDER = ("ingest", "fit", "train", "evaluate", "export")


@dataclasses.dataclass(frozen=True)
class RunSteps(ABC):
    """The steps of an experiment; each public method in `ORDER` is one of `recsys-attn`.

    Args:
        experiment: The experiment, of a ranking or of a sequence model.
        run: The run folder.
        console: Prints the progress.
    """

    experiment: Any
    run: Run
    console: Console

    @classmethod
    def of(cls, experiment: Any, folder: Path, console: Console, force: bool) -> Self:
        """The steps of an experiment in a run folder."""
        files = partial(cls._files, experiment)
        run = Run(folder, experiment.settings, experiment.seed, console, force, files)
        return cls(experiment, run, console)

    @staticmethod
    def _files(experiment: Any) -> Mapping[str, str]:
        """The stamps of the files that `ingest` reads."""
        stamps: Mapping[str, str] = experiment.data.stamps()
        return stamps

    @staticmethod
    @abstractmethod
    def _read(folder: Path) -> Any:
        """Reads the experiment that a run folder keeps."""

    def everything(self) -> None:
        """Runs all steps in order."""
        self.take(ORDER)

    def take(self, names: Collection[str]) -> None:
        """Runs the steps of these names, in their order."""
        if training.worker_count() > 1 and set(names) != {"train"}:
            raise PipelineError(
                "TF_CONFIG: expected `recsys-attn train` for workers that train together: the "
                f"other steps run once, before and after. Received: {', '.join(names)}."
            )
        for name in ORDER:
            if name in names:
                getattr(self, name)()

    def ingest(self, engine: Engine = LOCAL) -> None:
        """Reads the source files and writes the data folder."""
        progress = Progress(self.console)

        def build(folder: Path) -> Mapping[str, Any]:
            try:
                summary = self._ingested(folder, engine, progress)
            finally:
                progress.stop()
            files = [path for split in SPLITS for path in sorted((folder / split).glob("*"))]
            files += [path for path in [folder / ITEMS, folder / USERS] if path.exists()]
            return {**summary, "data_hash": hash_files(files)}

        self._execute("ingest", build, sources=self.run.stamps)

    @abstractmethod
    def _ingested(self, folder: Path, engine: Engine, progress: Progress) -> Mapping[str, Any]:
        """Writes the splits into a folder; returns what the manifest says of them."""

    def fit(self, engine: Engine = LOCAL) -> None:
        """Fits the feature transforms on the train split."""
        self.run.manifest("ingest")
        train = DataSplit(self.run.path("ingest") / "train")
        schema = self._schema(train)
        progress = Progress(self.console)
        behind = self._behind

        def build(folder: Path) -> Mapping[str, Any]:
            earlier = None if behind is None else behind.features()
            advance = progress.start("fitting", train.rows)
            try:
                fitted = fit_split(schema, train, engine, advance, earlier)
            finally:
                progress.stop()
            if behind is not None and earlier is not None:
                progress.finish(behind.summary(new_values(fitted, earlier)))
            for warning in self._warnings(schema, train):
                progress.finish(warning)
            data = self.run.path("ingest")
            items, users = ItemTable.load(data), UserTable.load(data)
            unseen = self._unseen(fitted, earlier, progress)
            fitted = dataclasses.replace(fitted, items=items, users=users, unseen=unseen)
            fitted.save(folder)
            sized = ((f.name, getattr(f, "size", None)) for f in fitted.schema.features)
            sizes = {name: size for name, size in sized if size}
            shares = {name: of.shares for name, of in unseen.items()}
            return {"rows": train.rows, "table_rows": sizes, "unseen": shares}

        sources = {} if behind is None else behind.fingerprint("fit")
        self._execute("fit", build, sources=sources)

    def _warnings(self, schema: Schema, train: DataSplit) -> list[str]:
        """Warnings about the features that were fitted."""
        empty = map(nothing_to_learn, empty_features(schema, train))
        return [*empty, *coarse_features(schema, train)]

    @property
    def _behind(self) -> EarlierRun | None:
        """The run whose state and ids this one continues."""
        return None

    def _unseen(
        self, fitted: FittedFeatures, earlier: FittedFeatures | None, progress: Progress
    ) -> Mapping[str, UnseenValues]:
        """The new values of the last train rows and of the validation rows, by feature."""
        return {}

    @abstractmethod
    def _schema(self, train: DataSplit) -> Schema:
        """The features to fit on the train split."""

    def train(self) -> None:
        """Trains the model and keeps its best weights."""
        runs, checkpoints = self._older_runs(), self.run.folder / CHECKPOINTS
        if training.worker_index() > 0:  # only the first worker writes the result
            if not self.run.is_current("train", self.run.path("train"), runs):
                self._trained(checkpoints, None, runs)
            return
        if self.run.force:
            shutil.rmtree(checkpoints, ignore_errors=True)

        def build(folder: Path) -> Mapping[str, Any]:
            trained = self._trained(checkpoints, folder / training.LOGS, runs)
            model = trained.model
            model.save(folder / training.MODEL_FILE)
            weights = sum(variable.shape.num_elements() for variable in model.trainable_variables)
            rows = DataSplit(self.run.path("ingest") / "train").rows
            line = f"{model.name}: {weights:,} weights{self._weights_remark} for {rows:,} rows"
            Progress(self.console).finish(line)
            history = training.History(trained.history, self.experiment.training)
            return {
                "model": model.name,
                "weights": weights,
                "training": trained.history,
                "kept": history.kept(str(self.experiment.monitor)),
                "calibration": trained.calibration,
                "tower": trained.tower._asdict(),
                "pruned": trained.pruned,
                "ensemble": trained.ensemble,
                "warnings": trained.warnings,
                "versions": trained.versions,  # those that trained the weights
                "machine": this_machine(),
            }

        self._execute("train", build, sources=runs)

    @property
    def _weights_remark(self) -> str:
        """A remark on the weights that the number of weights leaves out."""
        return ""

    def _older_runs(self) -> dict[str, str]:
        """Fingerprints of the runs that training reads; a change makes training run again."""
        return {}

    def _trained(
        self, checkpoints: Path, logs: Path | None, runs: Mapping[str, str]
    ) -> training.TrainingResult:
        key = self.run.resume_key("train", resumable(self.run.settings["train"]), runs)
        fitted = FittedFeatures.load(self.run.path("fit"))
        data = training.TrainingData(self.run.path("ingest"), self.request, fitted)
        progress = Progress(self.console)
        try:
            return self._train(data, training.OutputPaths(checkpoints, logs, key), progress)
        finally:
            progress.stop()

    @abstractmethod
    def _train(
        self, data: training.TrainingData, output: training.OutputPaths, progress: Progress
    ) -> training.TrainingResult:
        """Trains the model, from the last checkpoint if there is one."""

    @abstractmethod
    def evaluate(self, engine: Engine = LOCAL) -> None:
        """Writes the metrics of the trained model, and prints them."""

    @property
    def export_folder(self) -> Path:
        """The folder of the exported versions, from which a server loads."""
        return self.run.path("export") / (self.experiment.export.name or self.experiment.name)

    def export(self) -> None:
        """Exports a new version of the SavedModel, unless the newest is up to date."""
        base, version = self.export_folder, self._version_to_export()

        def build(folder: Path) -> Mapping[str, Any]:
            summary = self._exported(folder, base.name, version)
            parity = summary["parity"]
            Progress(self.console).finish(
                f"parity on {parity['rows']} rows: largest difference "
                f"{parity['max_abs_difference']:.1e}"
            )
            return {**summary, "data_hash": self.run.manifest("ingest")["data_hash"]}

        manifests = self.run.path("export").glob(f"*/*/{MANIFEST}")  # also of other names
        before = max(
            manifests, key=lambda path: path.stat().st_mtime, default=base / MANIFEST
        ).parent
        self._execute("export", build, target=base / str(version), before=before)

    def _version_to_export(self) -> int:
        """The newest version if it is up to date, else the next one."""
        base = self.export_folder
        newest = max(map(int, (path.name for path in versions_in(base))), default=0)
        current = newest and self.run.is_current("export", base / str(newest))
        return newest if current else newest + 1

    @abstractmethod
    def _exported(self, folder: Path, name: str, version: int) -> Mapping[str, Any]:
        """Writes a version into a folder; returns what the manifest says of it."""

    def _execute(self, step: str, build: Build, **options: Any) -> dict[str, Any]:
        """Runs a step; saves the experiment in the run folder if it changes the step."""
        manifest = self.run.execute(step, build, **options)
        try:
            saved = self._read(self.run.folder)
        except DataError:  # missing, or written by an older version
            saved = None
        if saved is not None and _decides(saved, step) == _decides(self.experiment, step):
            return manifest
        if saved is not None:
            changes = "; ".join(differences(saved.resolved, self.experiment.resolved))
            self.console.print(
                f"[bold]experiment[/bold]: updated in the run folder: {escape(changes)}",
                soft_wrap=True,
            )
        with atomic_file(self.run.folder / EXPERIMENT) as file:
            write_json(file, self.experiment.resolved)
        return manifest

    def load(self) -> tuple[FittedFeatures, Any]:
        """The trained model and its transforms."""
        self.run.manifest("train")
        return self._load()

    @property
    @abstractmethod
    def _load(self) -> Callable[[], tuple[FittedFeatures, Any]]:
        """A loader of the trained model and its transforms, also for another process."""

    @property
    def request(self) -> str | None:
        """Column of the request id, None if each row is a request."""
        return self.run.manifest("ingest").get("request")


def _decides(experiment: Any, step: str) -> tuple[int, dict[str, Any]]:
    """The settings that determine a step's result."""
    return experiment.seed, experiment.settings[step]
