"""Makes an ensemble of trained runs, or of one model that is trained with several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.common.artifacts import MANIFEST, MODEL, read_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.model_options import EnsembleOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics import auc_by_class
from pipelines.metrics.probability import logit
from pipelines.scoring.scorer import Scorer, Scores
from pipelines.storage.dataset import DataSplit
from pipelines.training.calibration import calibrate
from pipelines.training.ensemble_weights import MemberWeights, equal_weights, fit_weights
from pipelines.training.history import History
from pipelines.training.load import load_trained
from pipelines.training.teacher import fingerprint_of, fitted_otherwise
from pipelines.training.tower_mode import TowerMode
from pipelines.training.train import OutputPaths, TrainingData, TrainingResult, train
from pipelines.training.training_state import TrainingProgress
from pipelines.training.workers import worker_count
from recsys_attn.models import RankingModel, ensemble

_LITTLE = 0.005  # a weight that is shown as 0.00


class _Member(NamedTuple):
    """A trained model.

    Attributes:
        name: Its name in messages.
        model: The model.
        facts: What the manifest says of it.
        versions: Versions of the packages that trained it.
    """

    name: str
    model: RankingModel
    facts: dict[str, Any]
    versions: Mapping[str, str]


def train_ensemble(
    experiment: Experiment, data: TrainingData, output: OutputPaths, progress: Progress
) -> TrainingResult:
    """Makes the experiment's ensemble; trains its members first, if they are seeds.

    A training that was stopped goes on, and a member that is trained already is taken as it is:
    each has its checkpoints in a folder of its own.

    Args:
        experiment: The experiment.
        data: The training and validation data.
        output: The output folders.
        progress: Shows the rows done, each epoch's metrics and the weights of the members.
    """
    if worker_count() > 1:
        raise PipelineError(
            "TF_CONFIG: several workers train one model together, and this is an ensemble. Train "
            "its members as runs, and name them in `model.runs`, with one worker."
        )
    members = list(_members(experiment, data, output, progress))
    fitted = _read_by(members, data.fitted).with_tasks(experiment.tasks)
    valid = Feed(DataSplit(data.folder / "valid"), fitted, data.request)
    labels, scores = _scored(members, valid, progress)
    weights, aucs = {}, {}
    for task in fitted.schema.tasks:
        logits = np.stack([_logits(of_member[task.name]) for of_member in scores])
        known = labels[task.name]
        chosen = fit_weights(known, logits) if task.has_probabilities else None
        weights[task.name] = chosen or equal_weights(len(members))
        together = np.array(weights[task.name].weights) @ logits
        aucs[task.name] = [_auc(known, one) for one in (*logits, together)]
    model = ensemble(
        fitted.schema,
        [member.model for member in members],
        {task: chosen.weights for task, chosen in weights.items()},
    )
    numbers = calibrate(model, valid) if experiment.training.calibrate else {}
    for line in _lines(members, weights, aucs):
        progress.finish(line)
    warnings = list(_of_no_use(members, weights))
    for sentence in warnings:
        progress.finish(sentence)
    facts = _facts(members, weights, aucs)
    versions, mode = _versions(members), TowerMode(None, False)
    return TrainingResult(model, [], versions, numbers, mode, {}, warnings, facts)


def check_runs(experiment: Experiment) -> None:
    """Checks the runs of an ensemble, before any work.

    Raises:
        PipelineError: A folder is not that of a trained run, or has other tasks.
    """
    for key, run in runs_of(experiment).items():
        fingerprint_of(run, key)
        theirs = {task.name: task for task in load_experiment(run).tasks}
        for task in experiment.tasks:
            other = theirs.get(task.name)
            if other is None or (other.label_column, other.mask) != (task.label_column, task.mask):
                raise PipelineError(
                    f"`{key}`: expected a run with the tasks of this experiment, with the same "
                    f"labels. {run} has no such task as {task.name!r}: it has {list(theirs)}."
                )


def runs_of(experiment: Experiment) -> dict[str, Path]:
    """The runs of an ensemble by their keys."""
    options = experiment.model
    runs = options.runs if isinstance(options, EnsembleOptions) else ()
    return {f"model.runs[{number}]": run for number, run in enumerate(runs)}


def _members(
    experiment: Experiment, data: TrainingData, output: OutputPaths, progress: Progress
) -> Iterator[_Member]:
    for key, run in runs_of(experiment).items():
        yield _loaded(run, key, data.fitted.without(experiment.model.exclude))
    for seed in experiment.model.seeds:
        name = f"seed {seed}"
        progress.finish(f"{experiment.model.name}, {name}")
        folder, logs = f"seed-{seed}", output.logs
        paths = OutputPaths(
            output.checkpoints / folder, logs and logs / folder, f"{output.key} {seed}"
        )
        options = experiment.model.model_copy(update={"seeds": ()})
        alone = experiment.model_copy(update={"seed": seed, "model": options})
        result = train(alone, data, paths, progress)
        kept = History(result.history, alone.training).kept(str(alone.monitor))
        facts = {"seed": seed, "training": result.history, "kept": kept}
        yield _Member(name, result.model, facts, result.versions)


def _loaded(run: Path, key: str, fitted: FittedFeatures) -> _Member:
    """The model of a run, which must have learned from features that are fitted alike."""
    theirs, model = load_trained(run, load_experiment(run).model.exclude)
    other = fitted_otherwise(theirs, fitted)
    if other:
        raise PipelineError(
            f"`{key}`: the features {other} of {run} are not those of this experiment: expected "
            "the same data, features and split, so that ids mean the same values."
        )
    versions = read_json(run / MODEL / MANIFEST)["versions"]
    return _Member(str(run), model, {"run": str(run)}, versions)


def _read_by(members: Sequence[_Member], fitted: FittedFeatures) -> FittedFeatures:
    """The features that a member reads."""
    read = {feature.name for member in members for feature in member.model.schema.features}
    return fitted.without(tuple(f.name for f in fitted.schema.features if f.name not in read))


def _scored(
    members: Sequence[_Member], valid: Feed, progress: Progress
) -> tuple[Scores, list[Scores]]:
    """The labels and each member's calibrated scores of the validation rows."""
    labels: Scores = {}
    scores = []
    for member in members:
        advance = progress.start(f"scoring with {member.name}", valid.split.rows)
        labels, of_member = Scorer(member.model).score_labelled(valid, advance)
        scores.append(of_member)
    return labels, scores


def _logits(scores: np.ndarray) -> np.ndarray:
    return logit(np.clip(scores.astype("float64"), 1e-7, 1 - 1e-7))


def _auc(labels: np.ndarray, logits: np.ndarray) -> float:
    return auc_by_class(logits[labels == 1], logits[labels == 0])


def _lines(
    members: Sequence[_Member],
    weights: Mapping[str, MemberWeights],
    aucs: Mapping[str, Sequence[float]],
) -> Iterator[str]:
    """Weights and AUC of each task, in words."""
    yield f"ensemble of {len(members)}, by the validation rows:"
    width = max(map(len, weights))
    for task, chosen in weights.items():
        *alone, together = aucs[task]
        parts = ", ".join(
            f"{member.name} {weight:.2f} (AUC {auc:.4f})"
            for member, weight, auc in zip(members, chosen.weights, alone, strict=True)
        )
        yield f"  {task:{width}}  AUC {together:.4f} = {parts}"
        if chosen.gain is not None:
            what = "better than" if chosen.fitted else "no better than"
            yield (
                f"  {'':{width}}  fitted weights are {what} equal ones: logloss of left-out rows "
                f"{-chosen.gain:+.5f}, standard error {chosen.error:.5f}"
            )


def _of_no_use(members: Sequence[_Member], weights: Mapping[str, MemberWeights]) -> Iterator[str]:
    """A sentence for each member without a weight."""
    for number, member in enumerate(members):
        if all(chosen.weights[number] < _LITTLE for chosen in weights.values()):
            yield (
                f"{member.name} has the weight 0.00 in every task, and costs as much as another "
                "member. Leave it out."
            )


def _facts(
    members: Sequence[_Member],
    weights: Mapping[str, MemberWeights],
    aucs: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """What the manifest says of the ensemble."""
    return {
        "members": [
            {
                **member.facts,
                "weights": {task: chosen.weights[n] for task, chosen in weights.items()},
                "auc": {task: of_task[n] for task, of_task in aucs.items()},
            }
            for n, member in enumerate(members)
        ],
        "tasks": {
            task: {
                "auc": aucs[task][-1],
                "fitted": chosen.fitted,
                "gain": chosen.gain,
                "error": chosen.error,
            }
            for task, chosen in weights.items()
        },
    }


def _versions(members: Sequence[_Member]) -> dict[str, str]:
    """The versions of all packages that trained a member."""
    every = TrainingProgress()
    for member in members:
        every.go_on_with(member.versions)
    return every.versions
