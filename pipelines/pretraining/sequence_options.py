"""The tables of the experiment file of a sequence model."""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pipelines.common.function_options import options_of
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.loop_options import LoopOptions
from pipelines.metrics.next_items import MEANS
from recsys_attn.models import SEQUENCE_MODELS
from recsys_attn.objectives import OBJECTIVES

METRICS = (*MEANS, "coverage")


class SequenceModelOptions(TomlTable):
    """The `[model]` table: a sequence model and its arguments."""

    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the model's function besides the schema."""
        return self.model_dump(exclude={"name"})


class ObjectiveOptions(TomlTable):
    """An entry of `[[objectives]]`: an objective and its arguments."""

    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the objective."""
        return self.model_dump(exclude={"name"})

    @property
    def label(self) -> str:
        """The name of the objective, with its column if it has one; different for each."""
        column = self.arguments.get("column")
        return self.name if column is None else f"{self.name} of {column}"


class SequenceTraining(LoopOptions):
    """The `[training]` table of a sequence model.

    Attributes:
        epochs: Maximum number of epochs; training ends before by `patience`.
        batch_size: Histories of each shard in a step. None: so many that an epoch has about 48
            steps, at least 16 and at most 128: `patience` counts epochs, and those of few users
            would have few steps.
        shards: Parts of the data, as for ranking models.
        learning_rate: Learning rate.
        embeddings_learning_rate: Learning rate of the tables with a row-wise optimizer.
        optimizer: `"adam"` for losses over the whole catalogue. A row-wise one, such as
            `"lazy_adam"`, updates the rows that a batch and its negatives look up: for sampled
            losses over a large catalogue, where a step must not cost the whole table.
        patience: Epochs without a better one after which training stops.
        weight_decay: Decoupled weight decay.
        clip_norm: Maximum global norm of the gradients.
        warmup_steps: Steps of linear warm-up of the learning rate; set it with post-norm blocks.
        cosine_steps: Steps of cosine decay to zero after the warm-up; 0 for none.
        learning_rate_decay: Factor of the learning rate after each epoch.
        reduce_on_plateau: Factor of the learning rate after an epoch that is no better.
        keep: Which weights are the result: those of the best epoch, or of the last.
        precision: `"mixed_bfloat16"` computes in bfloat16 and keeps float32 weights.
        shuffle_rows: Histories that are shuffled together.
        embeddings_l2: L2 penalty of table rows, for row-wise optimizers.
        checkpoint_every: Steps between checkpoints; 0: only at the end of each epoch.
        keep_checkpoints: Number of last checkpoints to keep, besides the best.
        monitor: The validation metric that decides which epoch is the best, such as `"ndcg@10"`.
        validation_rows: Users of the validation rows that are ranked after each epoch, the first
            ones of the file. Lower it where a catalogue is so large that validation takes longer
            than an epoch. None: all.
    """

    epoch_steps: ClassVar[int] = 48
    batch_sizes: ClassVar[tuple[int, int]] = (16, 128)

    epochs: int = Field(default=100, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    optimizer: Literal[
        "lazy_adam", "lazy_adagrad", "row_wise_adagrad", "adam", "adagrad", "sgd"
    ] = "adam"
    patience: int = Field(default=10, ge=0)
    reduce_on_plateau: float = Field(default=1.0, gt=0, le=1)
    monitor: str = "ndcg@10"
    validation_rows: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_monitor(self) -> SequenceTraining:
        metric, _, places = self.monitor.partition("@")
        if metric not in METRICS or not places.isdigit() or int(places) < 1:
            raise ValueError(
                f"`monitor` must be one of {', '.join(METRICS)} with a number of places, such as "
                f"'ndcg@10'. Received: monitor={self.monitor!r}"
            )
        return self

    @property
    def places(self) -> int:
        """The number of places of the monitored metric."""
        return int(self.monitor.partition("@")[2])


class SampledOptions(TomlTable):
    """The `evaluation.sampled` table.

    Attributes:
        negatives: Items among which the next one is ranked.
        by: Whether they are drawn uniformly or by popularity.
    """

    negatives: int = Field(default=100, ge=1)
    by: Literal["uniform", "popularity"] = "uniform"


class SequenceEvaluation(TomlTable):
    """The `[evaluation]` table of a sequence model.

    Attributes:
        at: Numbers of places of the metrics.
        seen: `"filtered"`: items of the history cannot be recommended again; `"ranked"`: they can,
            as where users repeat.
        sampled: Metrics among drawn items too. They cannot be compared with those over the whole
            catalogue. None: no such metrics.
    """

    at: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(5, 10, 20), min_length=1)
    seen: Literal["filtered", "ranked"] = "filtered"
    sampled: SampledOptions | None = None


class SequenceExport(TomlTable):
    """The `[export]` table of a sequence model.

    Attributes:
        name: Name of the exported model. None: the name of the experiment.
        top: Number of items in every answer, at most those of the catalogue.
    """

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    top: int = Field(default=100, ge=1)


@functools.cache
def _table(kind: str, name: str) -> Any:
    function: Any
    base: Any
    function, base = {
        "model": (SEQUENCE_MODELS.get(name), SequenceModelOptions),
        "objective": (OBJECTIVES.get(name), ObjectiveOptions),
    }[kind]
    return options_of(function, base, name=(Literal[name], name))


def any_of(kind: str) -> Any:
    """The type of a table with the arguments of any registered `"model"` or `"objective"`."""
    parts = SEQUENCE_MODELS if kind == "model" else OBJECTIVES
    tables = [_table(kind, name) for name in parts]
    if len(tables) == 1:
        return tables[0]
    return Annotated[functools.reduce(operator.or_, tables), Field(discriminator="name")]
