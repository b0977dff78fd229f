"""The steps of a refreshed version: an ordinary run behind that of the serving version."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import (
    EVALUATION,
    MANIFEST,
    atomic_directory,
    fingerprint,
    read_json,
    recover,
    write_json,
)
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation import evaluate as evaluation
from pipelines.experiment.config import Experiment
from pipelines.experiment.evaluation_options import EvaluationOptions
from pipelines.ingest import log_state
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.about_run import about_run
from pipelines.workflow.steps import Steps
from serving.state.saved import SavedState

BESIDE = "serving"  # in the run folder: the serving version on the same rows


@dataclass(frozen=True)
class RefreshSteps(Steps):
    """The steps of one refresh.

    Args:
        version: The number of the exported version.
        exports: The folder of all exported versions.
    """

    version: int = 0
    exports: Path = Path()

    @property
    def export_folder(self) -> Path:
        """The folder of the versions of all refreshes."""
        return self.exports

    def _version_to_export(self) -> int:
        return self.version

    def evaluate_beside(self, serving: Steps) -> None:
        """Evaluates the serving version on the rows on which the new one is evaluated.

        Args:
            serving: The steps of the serving version.
        """
        folder = self.run.folder / BESIDE / EVALUATION
        options = self.experiment.evaluation.metrics_only.model_copy(update={"gates": ()})
        inputs = [serving.run.manifest("train"), self.run.manifest("ingest")]
        mark = fingerprint(
            [*(manifest["fingerprint"] for manifest in inputs), options.model_dump(mode="json")]
        )
        recover(folder)
        if (folder / MANIFEST).exists() and read_json(folder / MANIFEST)["fingerprint"] == mark:
            return
        experiment = serving.experiment.model_copy(update={"evaluation": options})
        split = DataSplit(self.run.path("ingest") / options.split)
        fitted, model = serving.load()
        rates = evaluation.train_rates(serving.run.manifest("ingest")["labels"])
        progress = Progress(self.console)
        predictions, summary = evaluation.evaluate(
            experiment, split, self.request, fitted, model, progress, rates
        )
        about = about_run(experiment, serving.run, fitted.schema)
        with atomic_directory(folder) as new:
            evaluation.save_evaluation(new, predictions, {**about, **summary, "drift": []})
            write_json(new / MANIFEST, {"fingerprint": mark})


def check_columns(serving: Steps, columns: Collection[str]) -> None:
    """Checks that rows have the columns that the state reads.

    Args:
        serving: The steps of the serving version.
        columns: Names of the columns of the rows.

    Raises:
        PipelineError: A column is missing, as it was not in the log of what was served.
    """
    if not serving.experiment.data.made:
        return
    definition = SavedState.open(serving.run.path("ingest") / log_state.FOLDER).definition
    static = {name for one in definition.static for name in one.columns.names if name != one.key}
    missing = [name for name in definition.columns.names if name not in static.union(columns)]
    if missing:
        raise PipelineError(
            f"--data: the rows have no column {missing[0]!r}, which `data.aggregates` or "
            "`data.histories` read: a server logs features, keys and the time alone. Make it a "
            "feature of the model, or of the items or users in `data.items` or `data.users`, and "
            "make the run again."
        )


def refreshed_keys(
    experiment: Experiment,
    paths: Mapping[str, list[str]],
    columns: Collection[str],
    serving: Path,
    run: Path,
    request: str | None,
) -> dict[str, Any]:
    """The keys of a run's experiment that change for its refresh.

    Args:
        experiment: The experiment of the run.
        paths: Paths of the new rows by split.
        columns: Names of their columns.
        serving: The run folder of the serving version.
        run: The run folder of the refresh.
        request: Column of the request id.
    """
    return {
        "data.source": "parquet",
        "data.path": dict(paths),
        "data.split": {"by": "provided"},
        "data.request": request,
        "data.simulate": None,
        "data.sequences": None,
        "data.options": {},
        "data.behind": str(serving),
        "data.state_of": "train" if experiment.data.made else "all",  # the rest is trained on next
        "training.warm_start": str(serving),
        **_evaluation(experiment.evaluation, {*columns, *experiment.data.made}),
        "evaluation.gates": _gates(experiment, run / BESIDE),
    }


def _evaluation(options: EvaluationOptions, columns: Collection[str]) -> dict[str, Any]:
    """The keys that name columns, without those that served rows do not have."""
    segments = zip(options.segments, options.segmentations, strict=True)
    slices = options.slices
    return {
        "evaluation.group": options.group if options.group in columns else None,
        "evaluation.ceiling": {},  # a served row has no true probability
        "evaluation.baselines": {n: c for n, c in options.baselines.items() if c in columns},
        "evaluation.segments": [one for one, names in segments if {*names} <= {*columns}],
        "evaluation.slices": slices
        if isinstance(slices, bool)
        else [column for column in slices if column in columns],
    }


def _gates(experiment: Experiment, serving: Path) -> list[dict[str, Any]]:
    """The gates of the run, and those of `[refresh]` beside the serving version."""
    of_run = [gate.model_dump(mode="json") for gate in experiment.evaluation.gates]
    beside = [
        gate.model_dump(mode="json") for gate in experiment.refresh.gates_of(experiment.tasks)
    ]
    against = {"against": str(serving)}
    compared = [gate | against if gate["against"] else gate for gate in of_run]
    return [*compared, *(gate | against for gate in beside)]
