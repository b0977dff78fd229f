"""The steps of a ranking model's experiment, bound to its run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape

from pipelines import training
from pipelines.common.artifacts import METRICS, read_json
from pipelines.common.progress import Progress
from pipelines.distributions.drift import feature_drift
from pipelines.distributions.reference import of_split
from pipelines.distributions.statistics import Statistics
from pipelines.distributions.statistics import load as load_statistics
from pipelines.distributions.statistics import save as save_statistics
from pipelines.engines import LOCAL, Engine
from pipelines.evaluation import evaluate as evaluation
from pipelines.evaluation.baseline_models import add_baseline_models
from pipelines.evaluation.gates import check_passed, other_evaluations
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.ranked_tasks import check_comparable, check_train_labels
from pipelines.export.export import export
from pipelines.export.small_weights import shrink
from pipelines.features import FittedFeatures
from pipelines.features.continued import known_values
from pipelines.features.count_unseen import count_unseen
from pipelines.features.unseen import UnseenValues, fit_lines, last_share
from pipelines.feed.chunk import own_request
from pipelines.ingest import ingest, log_state
from pipelines.ingest.column_checks import check_nesting
from pipelines.ingest.item_features import check_covered
from pipelines.ingest.row_order import RowOrder
from pipelines.prediction_log.skew import (
    Baseline,
    SkewOptions,
    exported_versions,
    measure_skew,
    save_skew,
)
from pipelines.proposal.outcomes import outcome_features
from pipelines.report import print_evaluation, print_skew, write_report, write_skew_report
from pipelines.scoring.labelled import Scorers
from pipelines.scoring.score_files import Load, score
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Where
from pipelines.training.load import load_trained
from pipelines.workflow.about_run import about_run
from pipelines.workflow.compare import compare_runs
from pipelines.workflow.earlier_run import EarlierRun
from pipelines.workflow.run_steps import RunSteps
from pipelines.workflow.same_rows import check_same_rows
from pipelines.workflow.small_export import with_export_weights
from recsys_attn.schema import Schema
from serving.state.errors import DataError, require_column

REPORT = "report.html"
SKEW, SKEW_REPORT = "skew.json", "skew.html"


@dataclasses.dataclass(frozen=True)
class Steps(RunSteps):
    """The steps of a ranking model's experiment; each method is one of `recsys-attn`."""

    experiment: Experiment

    @staticmethod
    def _read(folder: Path) -> Experiment:
        return load_experiment(folder)

    @staticmethod
    def _files(experiment: Experiment) -> Mapping[str, str]:
        """The stamps of the files that `ingest` reads, and the fingerprint of an earlier run."""
        run = experiment.data.behind
        earlier = {} if run is None else EarlierRun(run).fingerprint("ingest")
        return {**experiment.data.stamps(), **earlier}

    @property
    def _behind(self) -> EarlierRun | None:
        run = self.experiment.data.behind
        return None if run is None else EarlierRun(run)

    def ingest(self, engine: Engine = LOCAL) -> None:
        """Reads the source files and writes the data folder."""
        training.check_model(self.experiment)  # even if the data is up to date
        training.check_runs(self.experiment)
        if self._draws:
            check_covered(self.experiment.data, self.experiment.model_schema, "training.negatives")
        if self._behind is not None:
            self._behind.check(self.experiment.resolved["data"], self.run.folder)
        super().ingest(engine)
        # If ingest was skipped, this is the first look at the columns.
        manifest, where = self.run.manifest("ingest"), str(self.run.path("ingest"))
        for key, name in self.experiment.evaluation.columns.items():
            require_column(manifest["columns"], name, key, where)
            check_nesting(key, name, manifest["columns"][name], where)
        if not self._draws:
            check_train_labels(manifest["labels"])

    def _ingested(self, folder: Path, engine: Engine, progress: Progress) -> Mapping[str, Any]:
        experiment = self.experiment
        advance = progress.start("reading", None)
        done = 0

        def total_so_far(rows: int) -> None:
            nonlocal done
            advance(rows - done)
            done = rows

        data = (experiment.data, experiment.schema_, experiment.seed)
        summary = ingest(*data, folder, total_so_far, engine, experiment.evaluation.columns)
        rows = "  ".join(f"{split} {count:,}" for split, count in summary["rows"].items())
        progress.finish(f"rows: {rows}")
        if summary["late"]:
            progress.finish(
                f"{summary['late']:,} rows are older than the newest row of "
                f"{experiment.data.behind} by more than `data.late`: their events do not count"
            )
        return summary

    def _schema(self, train: DataSplit) -> Schema:
        return self.experiment.schema_

    def _unseen(
        self, fitted: FittedFeatures, earlier: FittedFeatures | None, progress: Progress
    ) -> Mapping[str, UnseenValues]:
        data, manifest = self.run.path("ingest"), self.run.manifest("ingest")
        train, valid = DataSplit(data / "train"), DataSplit(data / "valid")
        share = last_share(manifest["rows"])
        known = {} if earlier is None else known_values(fitted, earlier)
        advance = progress.start("new values", train.rows + valid.rows)
        try:
            order = RowOrder(**manifest.get("order", {}))
            unseen = count_unseen(fitted, train, valid, order, share, known, advance)
        finally:
            progress.stop()
        for line in fit_lines(unseen, share):
            progress.finish(line)
        return unseen

    def _warnings(self, schema: Schema, train: DataSplit) -> list[str]:
        experiment = self.experiment
        outcomes = outcome_features(experiment.model_schema, train, experiment.data.made)
        return [*super()._warnings(schema, train), *outcomes]

    def train(self) -> None:
        """Trains the model and keeps its best weights."""
        manifest = self.run.manifest("ingest")
        counts, labels = manifest["comparable"], manifest["labels"]
        if self._draws:  # each request with a positive has a drawn negative
            counts = {
                task: {**of, "train": labels[task]["train"][1]} for task, of in counts.items()
            }
        check_comparable(self.experiment.schema_, self.experiment.monitor, counts)
        for key, run in training.runs_of(self.experiment).items():
            check_same_rows(run, key, manifest)
        super().train()

    @property
    def _draws(self) -> bool:
        """Whether training draws negatives."""
        return self.experiment.training.negatives is not None

    @property
    def _weights_remark(self) -> str:
        encoder = self.experiment.model.encoder_from
        frozen = encoder is not None and encoder.train == "frozen"
        return ", without those of the frozen encoder" if frozen else ""

    def _older_runs(self) -> dict[str, str]:
        options, encoder = self.experiment.training, self.experiment.model.encoder_from
        runs = {
            "training.warm_start": options.warm_start,
            "training.teacher.run": options.teacher.run if options.teacher else None,
            "training.prune": options.prune,
            "model.encoder_from.run": encoder.run if encoder else None,
            **training.runs_of(self.experiment),
        }
        return {key: training.fingerprint_of(run, key) for key, run in runs.items() if run}

    def _train(
        self, data: training.TrainingData, output: training.OutputPaths, progress: Progress
    ) -> training.TrainingResult:
        is_ensemble = self.experiment.model.is_ensemble
        make = training.train_ensemble if is_ensemble else training.train
        return make(self.experiment, data, output, progress)

    def evaluate(self, engine: Engine = LOCAL) -> None:
        """Writes predictions, metrics and the report; the engine scores the rows."""
        workers = None if engine is LOCAL else Scorers(engine, self._load)

        def build(folder: Path) -> Mapping[str, Any]:
            data = self.run.manifest("ingest")
            fitted, model = self.load()
            options, rows = self.experiment.evaluation, self.run.path("ingest")
            split = DataSplit(rows / options.split)
            inputs = (self.experiment, split, self.request, fitted, model, Progress(self.console))
            rates = evaluation.train_rates(data["labels"])
            epochs = len(self.run.manifest("train")["training"])
            trained = epochs * data["rows"]["train"] or None  # None: an ensemble of other runs
            predictions, summary = evaluation.evaluate(*inputs, rates, workers, trained)
            if options.baseline_models and not self._draws:  # else the rows have no negatives
                of = (predictions, rows, split, fitted, self.experiment.seed)
                add_baseline_models(summary, *of, Progress(self.console))
            about = about_run(self.experiment, self.run, fitted.schema)
            metrics = {**about, **summary, "drift": self._drift(split, fitted)}
            evaluation.save_evaluation(folder, predictions, metrics, options.gates)
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
        expected = load_statistics(self.run.path("statistics"))
        return feature_drift(fitted, expected, self._counted(split, fitted))

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

    def export(self) -> None:
        """Exports a new version of the SavedModel, unless the newest is up to date.

        Raises:
            GateError: The evaluated model failed a gate.
        """
        self._check_gates()
        super().export()

    def _exported(self, folder: Path, name: str, version: int) -> Mapping[str, Any]:
        data = self.run.path("ingest")
        fitted, model = self.load()
        model, stored = with_export_weights(
            self.experiment, data, self.request, (fitted, model), self.console
        )
        summary = export(
            folder,
            name,
            version,
            model,
            fitted,
            self.request,
            DataSplit(data / "test"),
            self.experiment.export,
            data / log_state.FOLDER if self.experiment.data.has_state else None,
        )
        return {**summary, **stored}

    def score(self, source: Where, target: Path, engine: Engine = LOCAL) -> int:
        """Scores any Parquet file with the schema's columns; returns the number of rows."""
        self.run.manifest("train")
        tasks = [task.name for task in self.experiment.tasks]
        progress = Progress(self.console)
        columns, schema = self.experiment.data.made, self.experiment.schema_
        return score(
            source, target, tasks, self._load, self.request, progress, engine, columns, schema
        )

    def skew(self, options: SkewOptions) -> dict[str, Any]:
        """Writes and prints drift and skew of a prediction log against this run."""
        result = measure_skew(options, self.baseline(), Progress(self.console))
        target, page = self.run.folder / SKEW, self.run.folder / SKEW_REPORT
        save_skew(result, target)
        write_skew_report(result, self.experiment.name, page)
        print_skew(self.console, result)
        places = "  ".join(escape(str(path)) for path in (target, page))
        self.console.print(f"[bold]skew[/bold]: written  [dim]{places}[/dim]", soft_wrap=True)
        return result

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
            self.run.path("ingest") / log_state.FOLDER,
        )

    def statistics(self) -> None:
        """Counts the train split's values, for comparison with other rows or a log."""

        def build(folder: Path) -> Mapping[str, Any]:
            train = DataSplit(self.run.path("ingest") / "train")
            fitted = FittedFeatures.load(self.run.path("fit"))
            save_statistics(self._counted(train, fitted), folder)
            return {"rows": train.rows}

        self._execute("statistics", build)

    def _counted(self, split: DataSplit, fitted: FittedFeatures) -> Statistics:
        """The statistics of all rows of a split."""
        progress = Progress(self.console)
        try:
            advance = progress.start(f"counting {split.name}", split.rows)
            return of_split(split, fitted, self.request, advance)
        finally:
            progress.stop()

    @property
    def _evaluation(self) -> Path | None:
        """The evaluation's folder, if it exists and is up to date."""
        try:
            self.run.manifest("evaluate")
        except DataError:
            return None
        return self.run.path("evaluate")

    @property
    def _load(self) -> Load:
        return partial(load_trained, self.run.folder, self.experiment.model.exclude)
