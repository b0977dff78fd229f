"""Trains small models on the prepared data, or on changed copies of it."""

import dataclasses
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.training import OutputPaths, TrainingData, train
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task
from tests.support.experiments import load

MLP = {"name": "mlp", "width": 4, "units": [8]}


@dataclasses.dataclass
class Trainer:
    """Trains again and again in one folder; `history` and `output` are the last training's."""

    prepared: Path
    folder: Path
    data: Path | None = None
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    output: io.StringIO = dataclasses.field(default_factory=io.StringIO)

    def __call__(
        self, tasks: tuple[Task, ...] | None = None, run: str = "", **options: Any
    ) -> RankingModel:
        """Trains with these options, in the subfolder `run` with checkpoints of its own."""
        folder = self.folder / run
        folder.mkdir(exist_ok=True)
        experiment = load(folder, **{"model": MLP, "training__calibrate": False, **options})
        if tasks is not None:
            experiment = experiment.model_copy(update={"tasks": tasks})
        self.output = io.StringIO()
        model, self.history, *_ = train(
            experiment,
            TrainingData(
                self.data or self.prepared / "data",
                "request_id",
                self.fitted,
            ),
            OutputPaths(folder / "checkpoints", folder / "tensorboard", "key"),
            Progress(Console(file=self.output, width=200)),
        )
        return model

    @property
    def fitted(self) -> FittedFeatures:
        """The transforms of the prepared run."""
        return FittedFeatures.load(self.prepared / "features")
