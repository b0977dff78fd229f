"""Other models with the data, the features and the training of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from pipelines import training
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.workflow.quiet_run import DATA_STEPS, link_step, run_quietly, training_seconds
from pipelines.workflow.run import STEPS
from pipelines.workflow.steps import Steps
from recsys_attn import models
from serving.state.errors import DataError, did_you_mean

FOLDER = "tries"  # in the run folder
# Keys that start from weights of the run's own model.
_OF_MODEL = ("training.warm_start", "training.prune", "training.prune_heads", "training.prune_by")


def try_models(steps: Steps, names: Sequence[str]) -> list[Path]:
    """Trains and evaluates models, each in a folder of its own, unless it is up to date.

    Args:
        steps: The finished run, whose ingested rows and fitted features are used as they are.
        names: The models; their arguments have the defaults.

    Returns:
        The run folders.

    Raises:
        PipelineError: The run is not evaluated, or a model is unknown or cannot be built for its
            features.
    """
    steps.run.manifest("evaluate")
    experiments = {name: _experiment(steps, name) for name in names}
    folders = []
    for name, experiment in experiments.items():
        folder = steps.run.folder / FOLDER / name
        for step in (*DATA_STEPS, "statistics"):
            if steps.run.path(step).exists():
                link_step(steps.run.path(step), folder / STEPS[step].folder)
        steps.console.print(f"[bold]{escape(name)}[/bold]: ...")
        trained = run_quietly(experiment, folder, steps=("train", "evaluate")).run.manifest("train")
        line = f"{trained['weights']:,} weights, trained in {training_seconds(trained):,.1f} s"
        place = f"[dim]{escape(str(folder))}[/dim]"
        steps.console.print(f"[bold]{escape(name)}[/bold]: {line}  {place}", soft_wrap=True)
        folders.append(folder)
    return folders


def _experiment(steps: Steps, name: str) -> Experiment:
    """The run's experiment with another model, evaluated without audits."""
    if name not in models.MODELS:
        raise PipelineError(
            f"--try: there is no model {name!r}.{did_you_mean(name, list(models.MODELS))} Models: "
            f"{', '.join(models.MODELS)}."
        )
    table = {"name": name, "exclude": list(steps.experiment.model.exclude)}
    changed = {"model": table, **dict.fromkeys(_OF_MODEL)}
    try:
        experiment = load_experiment(steps.run.folder, changed)
        training.check_model(experiment)
    except DataError as error:
        raise PipelineError(f"--try {name}: {error}") from None
    evaluation = experiment.evaluation.metrics_only.model_copy(update={"gates": ()})
    return experiment.model_copy(update={"evaluation": evaluation})
