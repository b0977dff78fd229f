"""Reads and checks the experiment file of a sequence model."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model, model_validator

from pipelines.common.errors import PipelineError, sentence
from pipelines.common.own_parts import NO_PARTS, OwnParts
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.file import read_values, validated
from pipelines.experiment.step_fingerprints import shown_paths
from pipelines.ingest.events.event_options import AGE, SESSION, EventOptions
from pipelines.pretraining.schema import ages
from pipelines.pretraining.sequence_options import (
    ObjectiveOptions,
    SequenceEvaluation,
    SequenceExport,
    SequenceModelOptions,
    SequenceTraining,
    any_of,
)
from recsys_attn.models import SequenceModel, get_sequence_model
from recsys_attn.objectives import OBJECTIVES, Objective
from recsys_attn.schema import RESERVED_IDS, Schema, Sequence

if TYPE_CHECKING:
    _Model = SequenceModelOptions
    _Objective = ObjectiveOptions
else:
    _Model = any_of("model")
    _Objective = any_of("objective")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class SequenceExperiment(TomlTable):
    """The experiment file of a sequence model.

    Attributes:
        name: Name of the run folder (`runs/<name>`) and of the export.
        seed: Fixes the order of rows, the initial weights, dropout and draws.
        max_length: The most events of a history that the model sees, the last ones. Twice as many
            cost twice as much, and more with attention.
        inputs: Which of `data.columns` are parts of an event for the model, such as its kind. The
            others are for objectives alone.
        data: The events: source, columns and split.
        model: The sequence model.
        objectives: The objectives; their losses are added. None: that of the model's direction,
            `next_item` or `masked_item`, with a softmax over the whole catalogue.
        training: The training.
        evaluation: The evaluation.
        export: The export.
    """

    name: str = Field(pattern=_NAME)
    seed: int = Field(default=0, ge=0, lt=2**32)
    max_length: int = Field(default=50, ge=2)
    inputs: tuple[str, ...] = ()
    data: EventOptions
    model: _Model
    objectives: tuple[_Objective, ...] = ()
    training: SequenceTraining = SequenceTraining()
    evaluation: SequenceEvaluation = SequenceEvaluation()
    export: SequenceExport = SequenceExport()

    @model_validator(mode="after")
    def _check(self) -> SequenceExperiment:
        labels = [objective.label for objective in self.objectives]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"`objectives` must have different names or columns. Received: {labels}"
            )
        for name in self.inputs:
            if name not in self.data.columns:
                raise ValueError(
                    f"`inputs` names {name!r}: name it in `data.columns` too. "
                    f"Received: data.columns={list(self.data.columns)}"
                )
        action = self.model.arguments.get("action")
        if action is not None and action not in self.inputs:
            raise ValueError(
                f"`model.action` names {action!r}: name it in `inputs` and in `data.columns` too. "
                f"Received: inputs={list(self.inputs)}"
            )
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The sequences besides the items: further columns, and the session where there is one."""
        return (*self.data.columns, *([SESSION] if self.data.has_sessions else []))

    @property
    def resolved(self) -> dict[str, Any]:
        """The whole experiment as saved in a run folder: all keys, no passwords of URIs."""
        values = self.model_dump(mode="json")
        values["data"]["path"] = shown_paths(values["data"]["path"])
        return values

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings that determine each step's result."""
        values = self.resolved
        return {
            "ingest": {"data": values["data"]},
            "fit": {"max_length": self.max_length},
            "train": {key: values[key] for key in ("inputs", "model", "objectives", "training")},
            "evaluate": {"evaluation": values["evaluation"]},
            "export": {"export": {**values["export"], "name": self.export.name or self.name}},
        }

    @property
    def own_parts(self) -> OwnParts:
        """The user's modules, which only a ranking model's experiment has."""
        return NO_PARTS

    @property
    def monitor(self) -> str:
        """The validation metric that decides which epoch is the best."""
        return self.training.monitor


def build_sequence_model(experiment: SequenceExperiment, schema: Schema) -> SequenceModel:
    """Builds the experiment's model for the fitted schema."""
    build = get_sequence_model(experiment.model.name)
    try:
        return build(schema, **experiment.model.arguments)
    except (TypeError, ValueError) as error:
        raise PipelineError(
            f"The model {experiment.model.name!r} cannot be built: {sentence(error)}"
        ) from None


def build_objectives(
    experiment: SequenceExperiment, model: SequenceModel, schema: Schema
) -> list[Objective]:
    """Makes the experiment's objectives for the model.

    Args:
        experiment: The experiment.
        model: The model.
        schema: The fitted schema of all sequences, also of those that the model does not see.
    """
    named = [(entry.label, entry.name, entry.arguments) for entry in experiment.objectives]
    if not named:
        name = {None: "next_item", "mask": "masked_item", "query": "permutation"}[model.appends]
        named = [(name, name, {})]
    sizes = {f.name: f.size or 0 for f in schema.features if isinstance(f, Sequence)}
    objectives = []
    for label, name, arguments in named:
        try:
            objective = OBJECTIVES[name](**arguments)
            objective.require_fit(model)
            _require_columns(name, objective, sizes)
            objective.prepare(model, sizes)
        except (TypeError, ValueError) as error:
            raise PipelineError(f"`objectives`, {label!r}: {sentence(error)}") from None
        objectives.append(objective)
    return objectives


def _require_columns(name: str, objective: Objective, sizes: dict[str, int]) -> None:
    for column in objective.columns:
        if column not in sizes:
            advice = (
                "give `data` a `session` or a `session_gap`"
                if column == SESSION
                else "name it in `data.columns`"
            )
            raise ValueError(
                f"The objective {name!r} reads the sequence {column!r}: {advice}. "
                f"Received: {sorted(sizes)}"
            )


def seen_by_model(experiment: SequenceExperiment, schema: Schema) -> Schema:
    """The sequences that the model sees: items, `inputs` and times."""
    names = {experiment.data.item, *experiment.inputs, AGE}
    return Schema(tuple(f for f in schema.features if f.name in names), ())


def check_experiment(experiment: SequenceExperiment) -> None:
    """Checks the model and its objectives early, by building them for a small catalogue."""
    length = experiment.max_length
    sequences = [
        Sequence(name, size=RESERVED_IDS + 3, max_length=length)
        for name in (experiment.data.item, *experiment.columns)
    ]
    schema = Schema((*sequences, ages(length)), ())
    model = build_sequence_model(experiment, seen_by_model(experiment, schema))
    build_objectives(experiment, model, schema)


def load_sequence_experiment(
    path: Path, overrides: dict[str, Any] | None = None
) -> SequenceExperiment:
    """Reads and checks a TOML file, or the experiment saved in a run folder.

    Args:
        path: The file or the run folder.
        overrides: Values by dotted key that replace those of the file.
    """
    values = read_values(path, overrides or {})
    return validated(_type(), values, str(path), values=values)


@functools.cache
def _type() -> type[SequenceExperiment]:
    objectives: Any = tuple[any_of("objective"), ...]  # type: ignore[misc]
    return create_model(
        "SequenceExperiment",
        __base__=SequenceExperiment,
        model=(any_of("model"), ...),
        objectives=(objectives, ()),
    )
