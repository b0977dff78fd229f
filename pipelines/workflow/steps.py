"""The steps of an experiment, bound to its run folder."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines import training
from pipelines.common.artifacts import (
    CHECKPOINTS,
    MANIFEST,
    METRICS,
    hash_files,
    read_json,
)
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.distributions.drift import feature_drift
from pipelines.distributions.statistics import load as load_statistics
from pipelines.distributions.statistics import save as save_statistics
from pipelines.engines import LOCAL, Engine
from pipelines.evaluation import evaluate as evaluation
from pipelines.evaluation.gates import check_passed, other_evaluations
from pipelines.experiment.config import Experiment
from pipelines.experiment.ranked_tasks import check_comparable
from pipelines.experiment.step_fingerprints import (
    resumable_settings,
    settings_by_step,
)
from pipelines.export.export import export
from pipelines.export.small_weights import shrink
from pipelines.features import FittedFeatures, fit_split
from pipelines.features.coarse import coarse_features
from pipelines.features.empty import empty_features, nothing_to_learn
from pipelines.feed.chunk import own_request
from pipelines.ingest import ingest
from pipelines.ingest.aggregates import state as aggregates_state
from pipelines.ingest.column_checks import check_nesting
from pipelines.ingest.source import SPLITS
from pipelines.items import ItemTable
from pipelines.items.item_table import FILE as ITEMS
from pipelines.prediction_log.skew import (
    Baseline,
    SkewOptions,
    exported_versions,
    measure_skew,
    save_skew,
)
from pipelines.report import print_evaluation, print_skew, write_report, write_skew_report
from pipelines.scoring.batch import Load, score
from pipelines.scoring.labelled import Scorers
from pipelines.storage.columns import require_column
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Where
from pipelines.training.load import load_trained
from pipelines.workflow.about_run import about_run, this_machine
from pipelines.workflow.compare import compare_runs
from pipelines.workflow.counting import count_split
from pipelines.workflow.item_checks import check_draws, check_train_labels, comparable
from pipelines.workflow.kept_experiment import keep_experiment
from pipelines.workflow.run import Build, Run
from pipelines.workflow.small_export import with_export_weights
from pipelines.workflow.source_stamps import source_stamps
from recsys_attn.models import RankingModel

REPORT = "report.html"
SKEW, SKEW_REPORT = "skew.json", "skew.html"


@dataclasses.dataclass(frozen=True)
class Steps:
    """Each method is one step of `recsys-attn`."""

    experiment: Experiment
    run: Run
    console: Console

    @classmethod
    def of(cls, experiment: Experiment, folder: Path, console: Console, force: bool) -> Steps:
        """The steps of an experiment in a run folder."""
        settings, files = settings_by_step(experiment), partial(source_stamps, experiment)
        run = Run(folder, settings, experiment.seed, console, force, files=files)
        return cls(experiment, run, console)

    def everything(self) -> None:
        """Runs all steps in order."""
        self.ingest()
        self.fit()
        self.train()
        self.evaluate()
        self.export()

    def ingest(self, engine: Engine = LOCAL) -> None:
        """Reads the source files and writes the data folder."""
        training.check_model(self.experiment)  # even if the data is up to date
        check_draws(self.experiment)
        experiment, named = self.experiment, self.experiment.evaluation.columns
        progress = Progress(self.console)

        def build(folder: Path) -> Mapping[str, Any]:
            advance = progress.start("reading", None)
            done = 0

            def total_so_far(rows: int) -> None:
                nonlocal done
                advance(rows - done)
                done = rows

            try:
                data = (experiment.data, experiment.schema_, experiment.seed)
                summary = ingest(*data, folder, total_so_far, engine, named)
            finally:
                progress.stop()
            files = [path for split in SPLITS for path in sorted((folder / split).glob("*"))]
            rows = "  ".join(f"{split} {count:,}" for split, count in summary["rows"].items())
            progress.finish(f"rows: {rows}")
            files += [path for path in [folder / ITEMS] if path.exists()]
            return {**summary, "data_hash": hash_files(files)}

        manifest = self._execute("ingest", build, sources=self.run.stamps)
        # If ingest was skipped, this is the first look at the columns.
        where = str(self.run.path("ingest"))
        for key, name in named.items():
            require_column(manifest["columns"], name, key, where)
            check_nesting(key, name, manifest["columns"][name], where)
        check_train_labels(self.experiment, manifest["labels"])

    def fit(self, engine: Engine = LOCAL) -> None:
        """Fits the feature transforms on the train split."""
        schema = self.experiment.schema_
        progress = Progress(self.console)

        def build(folder: Path) -> Mapping[str, Any]:
            train = DataSplit(self.run.path("ingest") / "train")
            try:
                fitted = fit_split(schema, train, engine, progress.start("fitting", train.rows))
            finally:
                progress.stop()
            for name in empty_features(schema, train):
                progress.finish(nothing_to_learn(name))
            for warning in coarse_features(schema, train):
                progress.finish(warning)
            fitted = dataclasses.replace(fitted, items=ItemTable.load(self.run.path("ingest")))
            fitted.save(folder)
            sized = ((f.name, getattr(f, "size", None)) for f in fitted.schema.features)
            sizes = {name: size for name, size in sized if size}
            return {"rows": train.rows, "table_rows": sizes}

        self._execute("fit", build)

    def train(self) -> None:
        """Trains the model and keeps its best weights."""
        data = self.run.manifest("ingest")
        counts = comparable(self.experiment, data)
        check_comparable(self.experiment.schema_, self.experiment.monitor, counts)
        target = self.run.path("train")
        checkpoints, older = self.run.folder / CHECKPOINTS, self._older_runs()
        if training.worker_index() > 0:  # only the first worker writes the result
            if not self.run.is_current("train", target, older):
                self._trained(checkpoints, None, older)
            return
        if self.run.force:
            shutil.rmtree(checkpoints, ignore_errors=True)

        def build(folder: Path) -> Mapping[str, Any]:
            trained = self._trained(checkpoints, folder / training.LOGS, older)
            model = trained.model
            model.save(folder / training.MODEL_FILE)
            weights = sum(variable.shape.num_elements() for variable in model.trainable_variables)
            encoder = self.experiment.model.encoder_from
            frozen = encoder is not None and encoder.train == "frozen"
            rest = ", without those of the frozen encoder" if frozen else ""
            Progress(self.console).finish(f"{model.name}: {weights:,} weights{rest}")
            return {
                "model": model.name,
                "weights": weights,
                "training": trained.history,
                "kept": training.History(trained.history, self.experiment.training).kept(
                    str(self.experiment.monitor)
                ),
                "calibration": trained.calibration,
                "tower": trained.tower._asdict(),
                "pruned": trained.pruned,
                "warnings": trained.warnings,
                "versions": trained.versions,  # those that trained the weights
                "machine": this_machine(),
            }

        self._execute("train", build, sources=older)

    def _older_runs(self) -> dict[str, str]:
        """Fingerprints of the runs that training reads; a change makes training run again."""
        options, encoder = self.experiment.training, self.experiment.model.encoder_from
        runs = {
            "training.warm_start": options.warm_start,
            "training.teacher.run": options.teacher.run if options.teacher else None,
            "training.prune": options.prune,
            "model.encoder_from.run": encoder.run if encoder else None,
        }
        return {key: training.fingerprint_of(run, key) for key, run in runs.items() if run}

    def _trained(
        self, checkpoints: Path, logs: Path | None, older: Mapping[str, str]
    ) -> training.TrainingResult:
        key = self.run.resume_key("train", resumable_settings(self.experiment), older)
        fitted = FittedFeatures.load(self.run.path("fit"))
        data = training.TrainingData(self.run.path("ingest"), self.request, fitted)
        progress = Progress(self.console)
        try:
            return training.train(
                self.experiment,
                data,
                training.OutputPaths(checkpoints, logs, key),
                progress,
            )
        finally:
            progress.stop()

    def evaluate(self, engine: Engine = LOCAL) -> None:
        """Writes predictions, metrics and the report; the engine scores the rows."""
        workers = None if engine is LOCAL else Scorers(engine, self._load)

        def build(folder: Path) -> Mapping[str, Any]:
            data = self.run.manifest("ingest")
            fitted, model = self.load()
            split = DataSplit(self.run.path("ingest") / self.experiment.evaluation.split)
            found = (self.experiment, split, self.request, fitted, model, Progress(self.console))
            rates = evaluation.train_rates(data["labels"])
            predictions, summary = evaluation.evaluate(*found, rates, workers)
            about = about_run(self.experiment, self.run, fitted.schema)
            metrics = {**about, **summary, "drift": self._drift(split, fitted)}
            gates = self.experiment.evaluation.gates
            evaluation.save_evaluation(folder, predictions, metrics, gates)
            return {"rows": summary["rows"]}

        others = other_evaluations(self.experiment.evaluation.gates, self.run.folder)
        self._execute("evaluate", build, sources=others)
        self.report()
        self._check_gates()

    def _drift(self, split: DataSplit, fitted: FittedFeatures) -> list[dict[str, Any]]:
        """Drift of the features from the training rows to the evaluated ones."""
        if split.name == "train":
            return []
        self.statistics()
        counted = count_split(split, fitted, self.request, self.console)
        return feature_drift(fitted, load_statistics(self.run.path("statistics")), counted)

    def _check_gates(self) -> None:
        """Raises the error for a gate that the evaluated model failed."""
        if self.experiment.evaluation.gates:
            self.run.manifest("evaluate")
            check_passed(read_json(self.run.path("evaluate") / METRICS)["gates"])

    def report(self, against: Sequence[Path] = ()) -> None:
        """Writes the HTML report, with a section against other runs, and prints the metrics."""
        self.run.manifest("evaluate")
        folder, target = self.run.path("evaluate"), self.run.folder / REPORT
        compared = compare_runs([self.run.folder, *against])
        write_report(folder, target, compared)
        print_evaluation(self.console, read_json(folder / METRICS), compared)
        place = f"[dim]{escape(str(target))}[/dim]"
        self.console.print(f"[bold]report[/bold]: written  {place}", soft_wrap=True)

    @property
    def export_folder(self) -> Path:
        """The folder of the exported versions, from which a server loads."""
        return self.run.path("export") / (self.experiment.export.name or self.experiment.name)

    def export(self) -> None:
        """Exports a new version of the SavedModel, unless the newest is up to date.

        Raises:
            GateError: The evaluated model failed a gate.
        """
        self._check_gates()
        base = self.export_folder
        newest = max((int(p.name) for p in base.glob("*") if p.name.isdigit()), default=0)
        version = newest if newest and self.run.is_current("export", base / str(newest)) else 0
        version = version or newest + 1

        def build(folder: Path) -> Mapping[str, Any]:
            fitted, model = self.load()
            test = DataSplit(self.run.path("ingest") / "test")
            model, stored = with_export_weights(
                self.experiment,
                self.run.path("ingest"),
                self.request,
                (fitted, model),
                self.console,
            )
            aggregates = self.run.path("ingest") / aggregates_state.FOLDER
            summary = export(
                folder,
                base.name,
                version,
                model,
                fitted,
                self.request,
                test,
                self.experiment.export,
                aggregates if self.experiment.data.aggregates else None,
            )
            parity = summary["parity"]
            Progress(self.console).finish(
                f"parity on {parity['rows']} rows: largest difference "
                f"{parity['max_abs_difference']:.1e}"
            )
            return {**summary, **stored, "data_hash": self.run.manifest("ingest")["data_hash"]}

        made = self.run.path("export").glob(f"*/*/{MANIFEST}")  # also of other names
        before = max(made, key=lambda path: path.stat().st_mtime, default=base).parent
        self._execute("export", build, target=base / str(version), before=before)

    def score(self, source: Where, target: Path, engine: Engine = LOCAL) -> int:
        """Scores any Parquet file with the schema's columns; returns the number of rows."""
        self.run.manifest("train")
        tasks = [task.name for task in self.experiment.tasks]
        progress = Progress(self.console)
        made, schema = self.experiment.data.made, self.experiment.schema_
        return score(
            source, target, tasks, self._load, self.request, progress, engine, made, schema
        )

    def skew(self, options: SkewOptions) -> dict[str, Any]:
        """Writes and prints drift and skew of a prediction log against this run."""
        found = measure_skew(options, self.baseline(), Progress(self.console))
        target, page = self.run.folder / SKEW, self.run.folder / SKEW_REPORT
        save_skew(found, target)
        write_skew_report(found, self.experiment.name, page)
        print_skew(self.console, found)
        places = "  ".join(escape(str(path)) for path in (target, page))
        self.console.print(f"[bold]skew[/bold]: written  [dim]{places}[/dim]", soft_wrap=True)
        return found

    def baseline(self) -> Baseline:
        """The baseline for a log: the model and the statistics of its training data."""
        self.statistics()
        train = self.run.manifest("train")
        fitted, model = self.load()
        return Baseline(
            fitted,
            shrink(model, self.experiment.export),  # as exported
            load_statistics(self.run.path("statistics")),
            own_request(fitted.schema, self.request),
            self._evaluation,
            exported_versions(self.export_folder, train["fingerprint"]),
            self.export_folder.name,
            self.experiment.export.tolerance,
        )

    def statistics(self) -> None:
        """Counts the train split's values, for comparison with other rows or a log."""

        def build(folder: Path) -> Mapping[str, Any]:
            train = DataSplit(self.run.path("ingest") / "train")
            fitted = FittedFeatures.load(self.run.path("fit"))
            save_statistics(count_split(train, fitted, self.request, self.console), folder)
            return {"rows": train.rows}

        self._execute("statistics", build)

    def _execute(self, step: str, build: Build, **options: Any) -> dict[str, Any]:
        """Runs a step; saves the experiment in the run folder if it changes the step."""
        manifest = self.run.execute(step, build, **options)
        keep_experiment(self.run.folder, self.experiment, step, self.console)
        return manifest

    @property
    def _evaluation(self) -> Path | None:
        """The evaluation's folder, if it exists and is up to date."""
        try:
            self.run.manifest("evaluate")
        except PipelineError:
            return None
        return self.run.path("evaluate")

    def load(self) -> tuple[FittedFeatures, RankingModel]:
        """The trained model and its transforms."""
        self.run.manifest("train")
        return self._load()

    @property
    def _load(self) -> Load:
        """What workers load the trained model with."""
        return partial(load_trained, self.run.folder, self.experiment.model.exclude)

    @property
    def request(self) -> str | None:
        """Column of the request id, None if each row is a request."""
        return self.run.manifest("ingest").get("request")
