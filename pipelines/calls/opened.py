"""Opens the run folder of an experiment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.common.errors import PipelineError

if TYPE_CHECKING:
    from pipelines.experiment.config import Experiment
    from pipelines.pretraining.sequence_steps import SequenceSteps
    from pipelines.workflow.run_steps import RunSteps
    from pipelines.workflow.steps import Steps

CONSOLE = Console(highlight=False)
Overrides = Mapping[str, Any]


class Opening(NamedTuple):
    """An experiment and its run folder, as a command opens them.

    Attributes:
        experiment: The TOML file, or the folder of an earlier run.
        run_dir: The run folder. None: that of `experiment`, else `runs/NAME`.
        overrides: Values by dotted key in place of those of the file.
        force: Whether steps run again that are up to date.
        console: Prints the progress.
    """

    experiment: Path
    run_dir: Path | None
    overrides: Overrides
    force: bool = False
    console: Console = CONSOLE


@contextlib.contextmanager
def opened(opening: Opening) -> Iterator[RunSteps]:
    """Opens an experiment of a ranking model, or of a sequence model, as its file says."""
    from pipelines.experiment.file import is_of_sequences, read_values

    of_sequences = is_of_sequences(read_values(opening.experiment, dict(opening.overrides)))
    kind = opened_sequences if of_sequences else opened_ranking
    with kind(opening) as steps:
        yield steps


def loaded(experiment: Path, overrides: Overrides | None = None) -> Experiment:
    """Loads the experiment of a ranking model, from its file or a run folder."""
    from pipelines.experiment.config import check_keys, load_experiment

    check_keys(experiment, dict(overrides or {}))
    import_tensorflow()
    return load_experiment(experiment, dict(overrides or {}))


@contextlib.contextmanager
def opened_ranking(opening: Opening) -> Iterator[Steps]:
    """Loads an experiment, with overrides, and locks its run folder."""
    experiment = loaded(opening.experiment, opening.overrides)
    from pipelines.scoring.microbatches import one_thread_each
    from pipelines.workflow.steps import Steps

    one_thread_each()
    with _run_folder(opening, experiment.name) as folder:
        yield Steps.of(experiment, folder, opening.console, opening.force)


@contextlib.contextmanager
def opened_sequences(opening: Opening) -> Iterator[SequenceSteps]:
    """Loads the experiment of a sequence model, with overrides, and locks its run folder."""
    import_tensorflow()
    from pipelines.pretraining.experiment import load_sequence_experiment
    from pipelines.pretraining.sequence_steps import SequenceSteps

    experiment = load_sequence_experiment(opening.experiment, dict(opening.overrides))
    with _run_folder(opening, experiment.name) as folder:
        yield SequenceSteps.of(experiment, folder, opening.console, opening.force)


@contextlib.contextmanager
def _run_folder(opening: Opening, name: str) -> Iterator[Path]:
    """Locks the run folder of an experiment's file or folder."""
    from pipelines.common.artifacts import locked
    from pipelines.training import worker_index

    default = opening.experiment if opening.experiment.is_dir() else Path("runs") / name
    folder = opening.run_dir or default
    if set("[]*?") & set(str(folder.resolve())):
        raise PipelineError(
            "--run-dir: TensorFlow reads [ ] * ? in a path as a pattern and cannot save "
            f"there. Received: {folder.resolve()}. Choose another folder."
        )
    # Training workers share the run folder; only the first one writes to it.
    worker = worker_index()
    with locked(folder / "workers" / str(worker) if worker else folder):
        yield folder
