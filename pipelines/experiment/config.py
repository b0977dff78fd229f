"""One TOML file describes an experiment; here it becomes checked objects."""

from __future__ import annotations

import functools
import inspect
import json
import operator
import tomllib
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, Field, ValidationError, create_model, model_validator

from pipelines.common.artifacts import EXPERIMENT, read_json
from pipelines.common.errors import PipelineError, did_you_mean
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.names import check_feature_names, check_task_names
from pipelines.experiment.validation_errors import explain
from pipelines.feed.order import SHUFFLE_ROWS
from pipelines.ingest.data_options import DataOptions
from recsys_attn import models
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task


class ModelOptions(TomlTable):
    """`name`, the features it leaves out, and the arguments of the model's function."""

    name: str
    exclude: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """What the model's function takes besides the schema."""
        return self.model_dump(exclude={"name", "exclude"})


def _options_of(name: str) -> type[ModelOptions]:
    """The keyword arguments of a model's function, with their annotations, as options."""
    parameters = inspect.signature(models.get(name), eval_str=True).parameters.values()
    fields: dict[str, Any] = {
        parameter.name: (_checked(parameter.annotation), parameter.default)
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and parameter.name != "embeddings_regularizer"
    }
    fields["name"] = (Literal[name], name)
    return create_model(name, __base__=ModelOptions, **fields)


def _checked(annotation: Any) -> Any:
    """The annotation of an option; a part of attention is made once, to see whether it can be."""
    if get_origin(annotation) is Annotated:
        plain, make = get_args(annotation)
        return Annotated[plain, AfterValidator(functools.partial(_try, make))]
    if get_origin(annotation) in (types.UnionType, Union):
        return functools.reduce(operator.or_, map(_checked, get_args(annotation)))
    return annotation


def _try(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        make(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value


_MODELS: dict[str, Any] = {name: _options_of(name) for name in models.MODELS}
DEFAULT_MODEL = "attention_ranker"
if TYPE_CHECKING:
    _Model = ModelOptions
else:
    _Model = Annotated[
        functools.reduce(operator.or_, _MODELS.values()), Field(discriminator="name")
    ]


ROW_WISE = ("lazy_adam", "lazy_adagrad", "row_wise_adagrad")


class TrainingOptions(TomlTable):
    """The `[training]` table.

    Attributes:
        epochs: Most epochs.
        batch_size: Requests in a step, of each shard.
        shards: Streams that the data are dealt to, each of which gives a batch in each step; as
            many as replicas where None. So one worker with two shards takes the steps of two.
        learning_rate: Of everything, or with a row-wise optimizer of all but the tables.
        embeddings_learning_rate: Of the tables, with a row-wise optimizer; `learning_rate` where
            None.
        optimizer: `"lazy_adam"`, `"lazy_adagrad"` and `"row_wise_adagrad"` are row-wise: they
            update the rows of the tables that a batch looks up, and Adam the rest. `"adam"`,
            `"adagrad"` and `"sgd"` are Keras' own, whose step costs the whole tables.
        weight_decay: Share of every weight that a step of rate 1 would take away (decoupled); of
            the tables, with a row-wise optimizer, only the rows looked up.
        clip_norm: Largest norm of all gradients together.
        warmup_steps: Steps in which the learning rate rises.
        cosine_steps: Steps after these in which it falls to zero, along half a cosine; 0: it does
            not.
        learning_rate_decay: Factor of the learning rate after each epoch.
        reduce_on_plateau: Factor of the learning rate after an epoch without a better AUC.
        patience: Epochs without a better AUC after which training stops.
        monitor: Task whose validation AUC decides; the mean of all tasks' where None.
        precision: `"mixed_bfloat16"` computes in bfloat16 and keeps float32 weights.
        jit_compile: Compile the tower with XLA; on a CPU DIN gains a little by it, the others
            nothing.
        micro_batch_size: Candidates that the tower computes at a time, few enough to stay in a
            processor's cache; gradients are added up over the whole batch. 0: the whole batch at
            once. None: 64, or more for a tower of many weights; with a GPU the whole batch.
        shuffle_rows: Rows whose requests are mixed with one another, at least a row group. Twice
            as many are in memory.
        embeddings_l2: L2 penalty of the embedding tables. With a row-wise optimizer that of the
            rows looked up, each divided by how often it has been (DIN's); else of every row in
            each step, which costs a large vocabulary most of its speed.
        warm_start: Folder of an older run of the same model, whose weights and optimizer it
            begins from; rows of vocabularies are found by their values.
        checkpoint_every: Steps from one checkpoint to the next; 0 for the ends of epochs alone.
        keep_checkpoints: How many of the last stay; the best stays besides.
    """

    epochs: int = Field(default=10, ge=1)
    batch_size: int = Field(default=1024, ge=1)
    shards: int | None = Field(default=None, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    embeddings_learning_rate: float | None = Field(default=None, gt=0)
    optimizer: Literal[
        "lazy_adam", "lazy_adagrad", "row_wise_adagrad", "adam", "adagrad", "sgd"
    ] = "lazy_adam"
    patience: int = Field(default=2, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float | None = Field(default=None, gt=0)
    warmup_steps: int = Field(default=0, ge=0)
    cosine_steps: int = Field(default=0, ge=0)
    learning_rate_decay: float = Field(default=1.0, gt=0, le=1)
    reduce_on_plateau: float = Field(default=1.0, gt=0, le=1)
    monitor: str | None = None
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    jit_compile: bool = False
    micro_batch_size: int | None = Field(default=None, ge=0)
    shuffle_rows: int = Field(default=SHUFFLE_ROWS, ge=1)
    embeddings_l2: float = Field(default=0.0, ge=0)
    warm_start: Path | None = None
    checkpoint_every: int = Field(default=1000, ge=0)
    keep_checkpoints: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _check_rates(self) -> TrainingOptions:
        if self.embeddings_learning_rate is not None and self.optimizer not in ROW_WISE:
            raise ValueError(
                f"`embeddings_learning_rate` is of a row-wise optimizer: {', '.join(ROW_WISE)}. "
                f"Received: optimizer={self.optimizer!r}"
            )
        return self


class EvaluationOptions(TomlTable):
    """What is evaluated: GAUC's group, true probabilities and heuristics by column name."""

    split: Literal["train", "valid", "test"] = "test"
    group: str | None = None
    ceiling: dict[str, str] = Field(default_factory=dict)
    baselines: dict[str, str] = Field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Columns of the data that are no features or labels."""
        named = [self.group, *self.ceiling.values(), *self.baselines.values()]
        return [name for name in named if name is not None]


class ExportOptions(TomlTable):
    """How the model is exported and checked."""

    name: str | None = None
    parity_rows: int = Field(default=512, ge=1)
    tolerance: float = Field(default=1e-5, gt=0)
    warmup_requests: int = Field(default=5, ge=0, le=500)


_Feature = Annotated[Categorical | Numeric | Sequence, Field(discriminator="kind")]


class Experiment(TomlTable):
    """A whole experiment, as in `experiments/*.toml`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0, lt=2**32)
    data: DataOptions
    features: tuple[_Feature, ...]
    tasks: tuple[Task, ...]
    model: _Model = _MODELS[DEFAULT_MODEL]()
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    export: ExportOptions = ExportOptions()

    @property
    def schema_(self) -> Schema:
        """The schema of features and tasks (pydantic keeps the plain name for itself)."""
        return Schema(self.features, self.tasks)

    @model_validator(mode="after")
    def _check_names(self) -> Experiment:
        features = [feature.name for feature in self.schema_.features]
        check_feature_names(features)
        tasks = [task.name for task in self.tasks]
        check_task_names(tasks)
        _known("model.exclude", self.model.exclude, features)
        _known("evaluation.ceiling", self.evaluation.ceiling, tasks)
        _known("training.monitor", [self.training.monitor or tasks[0]], tasks)
        try:
            used = {feature.name for feature in self.model_schema.features}
        except ValueError as error:
            raise ValueError(f"Without the features that `model.exclude` names: {error}") from None
        for task in self.tasks:
            if task.label_column in used:
                raise ValueError(
                    f"The label {task.label_column!r} of the task {task.name!r} is also a feature "
                    "of the model, which would learn to copy it. Remove the feature, or name it "
                    "in `model.exclude`."
                )
        return self

    @property
    def model_schema(self) -> Schema:
        """The schema without the features that the model leaves out."""
        kept = tuple(f for f in self.features if f.name not in self.model.exclude)
        return Schema(kept, self.tasks)


def load_experiment(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Reads and checks a TOML file, or the experiment that a run folder keeps.

    Args:
        path: The file or the folder.
        overrides: Other values by their dotted keys.
    """
    values = _read_kept(path) if path.is_dir() else _read_toml(path)
    for key, value in (overrides or {}).items():
        _set(values, key, value)
    inherited = _expand_shorthands(values)
    try:
        # JSON's strict rules are TOML's: lists are lists, whole numbers are numbers, and
        # nothing else becomes anything else.
        text = json.dumps(values, default=str)
        return Experiment.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise PipelineError(explain(error, Experiment, str(path), inherited)) from None


def _read_kept(folder: Path) -> dict[str, Any]:
    if not (folder / EXPERIMENT).is_file():
        raise PipelineError(
            f"The folder {folder} keeps no experiment: expected an experiment's TOML file, or a "
            f"run folder with the {EXPERIMENT} that its first step writes."
        )
    return read_json(folder / EXPERIMENT, "Give the experiment's TOML file and --run-dir.")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"The experiment file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"The experiment file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path} is not valid TOML: {error}.") from None


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *tables, last = key.split(".")
    for depth, table in enumerate(tables, 1):
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            name = ".".join(tables[:depth])
            raise PipelineError(
                f"--set {key}: `{name}` is {'a list' if isinstance(values, list) else 'a value'} "
                "in the experiment file; expected a table, such as `training`."
            )
    values[last] = value


def _expand_shorthands(values: dict[str, Any]) -> list[str]:
    """`transform = "hash"` is `{kind = "hash"}`; a sequence has what the shared feature has.

    Returns:
        The keys that sequences got.
    """
    model, features = values.get("model"), values.get("features")
    if isinstance(model, dict):
        model.setdefault("name", DEFAULT_MODEL)
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
            feature["transform"] = {"kind": "vocabulary", **named}
        if feature.get("kind") == "categorical":
            owners[str(feature.get("name"))] = feature
    inherited = []
    for index, feature in tables.items():
        owner = owners.get(str(feature.get("shares")), {})
        for key in ("dtype", "transform", "width"):
            if feature.get("kind") == "sequence" and key in owner and key not in feature:
                feature[key] = owner[key]
                inherited.append(f"features[{index}].{key}")
    return inherited


def _known(key: str, names: Iterable[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(
                f"`{key}` names {name!r}; expected one of {', '.join(map(repr, known))}."
                f"{did_you_mean(name, known)}"
            )
