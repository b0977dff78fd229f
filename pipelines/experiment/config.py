"""Reads and checks an experiment's TOML file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from pipelines.common.errors import PipelineError, check_known
from pipelines.common.own_parts import OwnParts
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.ensemble_checks import check_ensemble
from pipelines.experiment.evaluation_options import (
    EvaluationOptions,
    check_gates,
    check_refresh,
    check_slices,
)
from pipelines.experiment.export_options import ExportOptions
from pipelines.experiment.features_over_time import features_over_time
from pipelines.experiment.file import is_of_sequences, read_values, validated
from pipelines.experiment.made_columns import check_made_columns, fill_histories
from pipelines.experiment.model_options import (
    DEFAULT_MODEL,
    ModelOptions,
    any_model,
    any_named_model,
    default_model,
)
from pipelines.experiment.monitor import Monitor
from pipelines.experiment.names import check_feature_names, check_task_names
from pipelines.experiment.own_options import (
    check_own_options,
    import_parts,
    own_transform,
)
from pipelines.experiment.ranked_tasks import check_ranked_tasks
from pipelines.experiment.refresh_options import RefreshOptions
from pipelines.experiment.several_columns import expand_lists
from pipelines.experiment.step_fingerprints import resolved, settings_by_step
from pipelines.experiment.training_options import TrainingOptions, check_tasks
from pipelines.features.transforms import TRANSFORMS
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.item_features import check_key
from pipelines.ingest.user_features import check_user_key
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.id_transforms import OwnTransform
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

_Feature = Annotated[Categorical | Numeric | Sequence, Field(discriminator="kind")]


class Experiment(TomlTable):
    """The whole experiment file.

    Attributes:
        name: Name of the run folder (`runs/<name>`) and of the export: letters, digits, `_`, `.`
            and `-`.
        seed: Fixes the split, the order of rows, the initial weights and dropout.
        imports: Python modules whose parts this file names, beside it or on PYTHONPATH.
        imports_from: Folder of these modules. None: that of the experiment file.
        data: The rows: source, split and histories.
        features: The inputs of the model.
        tasks: The predicted labels.
        model: The model. None: `attention_ranker`.
        training: The training.
        evaluation: The evaluation.
        export: The export.
        refresh: When a refreshed model serves.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0, lt=2**32)
    imports: tuple[str, ...] = ()
    imports_from: str | None = None
    data: DataOptions
    features: tuple[_Feature, ...]
    tasks: tuple[Task, ...] = Field(min_length=1)
    model: ModelOptions = ModelOptions(name=DEFAULT_MODEL)
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    export: ExportOptions = ExportOptions()
    refresh: RefreshOptions = RefreshOptions()

    @property
    def schema_(self) -> Schema:
        """The schema of features and tasks (pydantic reserves the name `schema`)."""
        return Schema(self.features, self.tasks)

    @model_validator(mode="after")
    def _check_names(self) -> Experiment:
        features = [feature.name for feature in self.schema_.features]
        check_feature_names(features)
        columns = [column.name for column in raw_columns(self.schema_).features]
        check_feature_names(columns, "column")
        for feature in self.features:
            if isinstance(feature.transform, OwnTransform):
                key = f"transform` of `{feature.name}"
                check_known(key, [feature.transform.name], list(TRANSFORMS))
        tasks = [task.name for task in self.tasks]
        check_task_names(tasks)
        check_made_columns(self.data, self.schema_)
        check_known("model.exclude", self.model.exclude, features)
        check_known("evaluation.ceiling", self.evaluation.ceiling, tasks)
        check_gates(self.evaluation, self.tasks)
        check_refresh(self.refresh, self.evaluation, self.tasks)
        check_slices(self.evaluation, self.tasks)
        check_tasks(self.tasks, self.training.task_weights, self.training.calibrate)
        check_ensemble(self.model, self.training, self.evaluation)
        self._check_items()
        if self.data.users is not None:
            check_user_key(self.data.users, self.schema_)
        self._check_state()
        try:
            used = {feature.column_name for feature in self.model_schema.features}
        except ValueError as error:
            raise ValueError(f"Without the features that `model.exclude` names: {error}") from None
        for task in self.tasks:
            if task.label_column in used:
                raise ValueError(
                    f"The label {task.label_column!r} of the task {task.name!r} is also a feature "
                    "of the model, which would learn to copy it. Remove the feature, or name it "
                    "in `model.exclude`."
                )
        check_ranked_tasks(self.model_schema, self.data, self.monitor)
        return self

    def _check_items(self) -> None:
        if self.data.items is not None:
            check_key(self.data.items, self.schema_)
        elif self.training.negatives is not None:
            raise ValueError(
                "`training.negatives` are drawn from a catalogue. Add the table `data.items` with "
                'the `key` of an item, such as `items = { key = "item_id" }`'
            )

    def _check_state(self) -> None:
        if self.training.state_dropout and not self.data.has_state:
            raise ValueError(
                "`training.state_dropout` hides columns of `data.histories`, `data.aggregates` and "
                "`data.users`. Add one of them, or remove it. Received: "
                f"state_dropout={self.training.state_dropout}"
            )

    @property
    def own_parts(self) -> OwnParts:
        """The user's modules."""
        return OwnParts(self.imports, self.imports_from or "")

    @property
    def resolved(self) -> dict[str, Any]:
        """The whole experiment as saved in a run folder: all keys, no passwords of URIs."""
        return resolved(self)

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings that determine each step's result."""
        return settings_by_step(self)

    @property
    def monitor(self) -> Monitor:
        """The validation metric that decides which epoch is the best."""
        return Monitor.of(self.training.monitor, self.tasks)

    @property
    def model_schema(self) -> Schema:
        """The schema without the excluded features."""
        features = tuple(f for f in self.features if f.name not in self.model.exclude)
        return Schema(features, self.tasks)


def load_experiment(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Reads and checks a TOML file, or the experiment saved in a run folder.

    Args:
        path: The file or the run folder.
        overrides: Values by dotted key that replace those of the file.
    """
    from recsys_attn import models

    values = _values_of_ranking(path, overrides or {})
    import_parts(values, path)
    return _checked(values, path, lambda: experiment_type(tuple(models.MODELS)))


def check_keys(path: Path, overrides: dict[str, Any]) -> None:
    """Checks an experiment as far as it can be without an import of TensorFlow.

    So an error takes no time: what is left are the values of the model's arguments, and all of an
    experiment with `imports`.

    Raises:
        PipelineError: A key or a value is wrong.
    """
    values = _values_of_ranking(path, overrides)
    if "imports" not in values:
        _checked(values, path, _named_type)


def _values_of_ranking(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    values = read_values(path, overrides)
    if is_of_sequences(values):
        raise PipelineError(
            f"{path}: expected the experiment of a ranking model, with features and tasks. "
            "Received: that of a sequence model, which run, ingest, fit, train, evaluate and "
            "export take."
        )
    return values


def _checked(
    values: dict[str, Any], path: Path, kind_of: Callable[[], type[Experiment]]
) -> Experiment:
    data = values.get("data")
    origins = expand_lists(values)
    inherited = _expand_shorthands(values)
    check_own_options(values, str(path))
    named = {**values, "data": data}
    return validated(kind_of(), values, str(path), inherited, values=named, origins=origins)


@functools.cache
def experiment_type(names: tuple[str, ...]) -> type[Experiment]:
    """The class of an experiment with one of the models of these names."""
    return create_model(
        "Experiment",
        __base__=Experiment,
        __doc__=Experiment.__doc__,
        model=(any_model(), default_model()),
    )


def _named_type() -> type[Experiment]:
    default = ModelOptions(name=DEFAULT_MODEL)
    return create_model("Experiment", __base__=Experiment, model=(any_named_model(), default))


def _expand_shorthands(values: dict[str, Any]) -> list[str]:
    """Adds features over time, expands `transform = "hash"` and paths by split, and copies options
    of shared features.

    Returns:
        The keys that were copied.
    """
    data, model, features = (values.get(name) for name in ("data", "model", "features"))
    made = features_over_time(data, features if isinstance(features, list) else [])
    if made and isinstance(features, list | None):
        values["features"] = features = [*(features or []), *made]
    if isinstance(data, dict) and isinstance(data.get("path"), dict):
        split = data.setdefault("split", {})
        if isinstance(split, dict):
            split.setdefault("by", "provided")
    if isinstance(model, dict):
        model.setdefault("name", DEFAULT_MODEL)
        if isinstance(model.get("encoder_from"), str):
            model["encoder_from"] = {"run": model["encoder_from"]}
    tables = {
        index: feature
        for index, feature in enumerate(features if isinstance(features, list) else [])
        if isinstance(feature, dict)
    }
    owners = {}
    for feature in tables.values():
        transform = feature.get("transform")
        if feature.get("kind") != "numeric" and isinstance(transform, str | dict):
            named = {"kind": transform} if isinstance(transform, str) else transform
            feature["transform"] = own_transform(named) or {"kind": "vocabulary", **named}
        if feature.get("kind") == "categorical":
            owners[str(feature.get("name"))] = feature
    inherited = []
    for index, feature in tables.items():
        owner = owners.get(str(feature.get("shares")), {})
        for key in ("dtype", "transform", "width", "table_width"):
            if feature.get("kind") == "sequence" and key in owner and key not in feature:
                feature[key] = owner[key]
                inherited.append(f"features[{index}].{key}")
    return inherited + fill_histories(tables, values.get("data"))
